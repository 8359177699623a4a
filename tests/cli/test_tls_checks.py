from pathlib import Path

from restante.cli.checks import State
from restante.cli.tls_checks import look_at_tls
from restante.server.settings import Settings
from tests.cli.conftest import Restante
from tests.pki import Pair, pki


def states(server: Pair, client_ca: Path | None = None) -> list[State]:
    settings = Settings(tls_certificate=server.certificate, tls_key=server.key, tls_client_ca=client_ca)
    return [each.state for each in look_at_tls(settings)]


def test_without_tls_there_is_nothing_to_look_at() -> None:
    assert list(look_at_tls(Settings())) == []


def test_good_files() -> None:
    pki().server.key.chmod(0o600)
    assert states(pki().server, pki().authority.certificate) == [State.ok, State.ok]


def test_certificates_near_and_past_their_end() -> None:
    for days, state in ((5, State.warning), (-1, State.problem)):
        pair = pki().issue("/CN=localhost", days=days)
        pair.key.chmod(0o600)
        assert states(pair) == [state]


def test_files_that_cannot_be_used_are_a_problem(tmp_path: Path) -> None:
    assert states(pki().server, tmp_path / "absent") == [State.problem]
    assert states(Pair(pki().server.certificate, pki().tpp.key)) == [State.problem]


def test_a_key_that_others_can_read() -> None:
    pair = pki().issue("/CN=localhost")
    pair.key.chmod(0o644)
    assert states(pair) == [State.warning, State.ok]


def test_the_doctor_looks(restante: Restante) -> None:
    config = restante.data / "restante.toml"
    restante.data.mkdir(exist_ok=True)
    absent = restante.data / "absent.pem"
    config.write_text(f'tls_certificate = "{absent}"\ntls_key = "{absent}"\n')
    result = restante("doctor")
    assert result.exit_code == 1
    assert str(absent) in result.stdout
