from pathlib import Path

from restante.server.config.settings import Settings
from restante.server.monitoring.checks import State
from restante.server.monitoring.tls_checks import check_tls
from tests.cli.conftest import Restante
from tests.pki import CertificateFiles, pki


def states(server: CertificateFiles, client_ca: Path | None = None) -> list[State]:
    settings = Settings(tls_certificate=server.certificate, tls_key=server.key, tls_client_ca=client_ca)
    return [each.state for each in check_tls(settings)]


def test_without_tls_there_is_no_finding() -> None:
    assert list(check_tls(Settings())) == []


def test_valid_files_are_ok() -> None:
    pki().server.key.chmod(0o600)
    assert states(pki().server, pki().authority.certificate) == [State.ok, State.ok]


def test_expiring_certificate_is_a_warning_and_expired_one_a_problem() -> None:
    for days, state in ((5, State.warning), (-1, State.problem)):
        pair = pki().issue("/CN=localhost", days=days)
        pair.key.chmod(0o600)
        assert states(pair) == [state]


def test_unusable_files_are_a_problem(tmp_path: Path) -> None:
    assert states(pki().server, tmp_path / "absent") == [State.problem]
    assert states(CertificateFiles(pki().server.certificate, pki().tpp.key)) == [State.problem]


def test_key_readable_by_others_is_a_warning() -> None:
    pair = pki().issue("/CN=localhost")
    pair.key.chmod(0o644)
    assert states(pair) == [State.warning, State.ok]


def test_doctor_checks_tls_files(restante: Restante) -> None:
    config = restante.data / "restante.toml"
    restante.data.mkdir(exist_ok=True)
    absent = restante.data / "absent.pem"
    config.write_text(f'tls_certificate = "{absent}"\ntls_key = "{absent}"\n')
    result = restante("doctor")
    assert result.exit_code == 1
    assert str(absent) in result.stdout
