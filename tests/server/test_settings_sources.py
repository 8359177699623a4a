from pathlib import Path

import pytest

from restante.server.setting_kinds import Address
from restante.server.settings import DECLARED, Settings
from restante.server.settings_sources import SettingsError, load, refuse_unshared, resolve


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def problems_of(
    flags: dict[str, object] | None = None, environ: dict[str, str] | None = None, config: Path | None = None
) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        load(flags or {}, environ or {}, config)
    assert str(raised.value) == "\n".join(raised.value.problems)
    return raised.value.problems


def toml(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_without_any_source_everything_is_the_default() -> None:
    resolved = resolve({}, {"PATH": "/bin"})
    assert resolved.settings == Settings()
    assert set(resolved.origins.values()) == {"default"}


def test_flag_before_environment_before_file_before_default(tmp_path: Path) -> None:
    config = toml(tmp_path / "a.toml", "poll_burst = 1\noutbox_batch = 1\nconnections_max = 1\n")
    environ = {"RESTANTE_POLL_BURST": "2", "RESTANTE_OUTBOX_BATCH": "2"}
    resolved = resolve({"poll_burst": "3", "listen": None}, environ, config)
    settings = resolved.settings
    assert (settings.poll_burst, settings.outbox_batch, settings.connections_max) == (3, 2, 1)
    assert settings.listen == Address("127.0.0.1", 8080)
    assert [resolved.origins[name] for name in ("poll_burst", "outbox_batch", "connections_max", "listen")] == [
        "--poll-burst",
        "RESTANTE_OUTBOX_BATCH",
        str(config),
        "default",
    ]


def test_every_setting_can_be_given_by_its_variable() -> None:
    values = {"public_url": "https://a.example", "mtls_url": "https://a.example", "master_key": "ab" * 32}
    values |= {"event_issuer": "https://a.example"}
    values |= {"issuers": "[]", "authorization_servers": "[]", "database": "postgresql://a@b/c"}
    values |= {"redis_url": "redis://a:6379/0"}
    # These are given together or not at all.
    together = dict.fromkeys(("tls_certificate", "tls_key", "tls_client_ca"), "a.pem")
    for name, declaration in DECLARED.items():
        raw = values.get(name) or str(declaration.default)
        given = together if name in together else {name: raw}
        environ = {DECLARED[each].variable: value for each, value in given.items()}
        assert resolve({}, environ).origins[name] == declaration.variable


@pytest.mark.parametrize("wrong", ["mysql://ada:opensesame@db/x", "postgresql://ada:opensesame@db", "opensesame"])
def test_a_wrong_address_of_a_database_is_not_quoted(wrong: str) -> None:
    (problem,) = problems_of(environ={"RESTANTE_DATABASE": wrong})
    assert "opensesame" not in problem
    assert "database: expected postgresql://" in problem


def test_the_file_of_the_data_folder_is_found(tmp_path: Path) -> None:
    toml(tmp_path / "data" / "restante.toml", "poll_burst = 7")
    toml(tmp_path / "other" / "restante.toml", "poll_burst = 8")
    assert load({}, {}).poll_burst == 7
    assert load({"data": "other"}, {}).poll_burst == 8
    assert load({}, {"RESTANTE_DATA": "other"}).poll_burst == 8


def test_a_named_file_is_read_instead_of_the_data_folders(tmp_path: Path) -> None:
    toml(tmp_path / "data" / "restante.toml", "poll_burst = 7")
    first, second = toml(tmp_path / "1.toml", "poll_burst = 1"), toml(tmp_path / "2.toml", "poll_burst = 2")
    assert load({}, {"RESTANTE_CONFIG": str(first)}).poll_burst == 1
    assert load({}, {"RESTANTE_CONFIG": str(first)}, second).poll_burst == 2


def test_a_named_file_may_name_the_data_folder_and_a_found_one_may_not(tmp_path: Path) -> None:
    assert load({}, {}, toml(tmp_path / "a.toml", 'data = "elsewhere"')).data == Path("elsewhere")
    toml(tmp_path / "data" / "restante.toml", 'data = "elsewhere"')
    (problem,) = problems_of()
    assert problem.startswith("data: a file found in the data folder cannot")


def test_a_wrong_value_is_named_with_its_origin_and_what_was_expected(tmp_path: Path) -> None:
    assert problems_of(environ={"RESTANTE_POLL_BURST": "many"}) == [
        "poll_burst: expected a whole number from 1 to 1000000, got 'many' (from RESTANTE_POLL_BURST)"
    ]
    assert problems_of(flags={"listen": "x"})[0].endswith("got 'x' (from --listen)")
    config = toml(tmp_path / "a.toml", 'log_level = "loud"')
    assert problems_of(config=config) == [
        f"log_level: expected one of debug, info, warning, error, got 'loud' (from {config})"
    ]


def test_an_empty_variable_is_a_wrong_value_and_not_an_absent_one() -> None:
    """A master key that was lost on the way must not become a new key."""
    assert problems_of(environ={"RESTANTE_MASTER_KEY": ""})[0].startswith("master_key: expected 32 bytes")


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    config = toml(tmp_path / "a.toml", "outbox_batch = 0\nnothing = 1")
    problems = problems_of({"listen": "x"}, {"RESTANTE_POLL_BURST": "", "RESTANTE_NOTHING": "1"}, config)
    assert len(problems) == 5


@pytest.mark.parametrize(
    ("variable", "hint"),
    [("RESTANTE_POLL_BRUST", "; did you mean RESTANTE_POLL_BURST?"), ("RESTANTE_XYZZY", "")],
)
def test_an_unknown_variable_is_an_error(variable: str, hint: str) -> None:
    assert problems_of(environ={variable: "1"}) == [f"{variable}: there is no such setting{hint}"]


def test_an_unknown_key_is_an_error(tmp_path: Path) -> None:
    config = toml(tmp_path / "a.toml", "poll_brust = 1\n[server]\nlisten = 'x'")
    assert problems_of(config=config) == [
        f"poll_brust: there is no such setting; did you mean poll_burst? (from {config})",
        f"server: there is no such setting (from {config})",
    ]


def test_variables_kubernetes_puts_there_are_left_alone() -> None:
    environ = dict.fromkeys(
        ("RESTANTE_SERVICE_HOST", "RESTANTE_SERVICE_PORT", "RESTANTE_PORT", "RESTANTE_PORT_8080_TCP_ADDR"),
        "x",
    )
    assert load({}, environ) == Settings()


def test_a_secret_is_taken_from_the_environment_only_and_never_told(tmp_path: Path) -> None:
    key = "ab" * 32
    assert load({}, {"RESTANTE_MASTER_KEY": key}).master_key == key
    (problem,) = problems_of(config=toml(tmp_path / "a.toml", f'master_key = "{key}"'))
    assert "RESTANTE_MASTER_KEY only" in problem
    (problem,) = problems_of(environ={"RESTANTE_MASTER_KEY": "hunter2hunter2"})
    assert "hunter2" not in problem


def test_a_long_wrong_value_is_shortened() -> None:
    (problem,) = problems_of(environ={"RESTANTE_LOG_LEVEL": "x" * 5000})
    assert len(problem) < 200


def test_issuers_say_more_about_what_is_wrong() -> None:
    (problem,) = problems_of(environ={"RESTANTE_ISSUERS": '[{"issuer": "a"}]'})
    assert problem.startswith("issuers: expected a list of tables")
    assert "`jwks`" in problem


def test_issuers_are_tables_of_the_file(tmp_path: Path) -> None:
    text = '[[issuers]]\nissuer = "https://a.example"\njwks = "a.json"\nalgorithms = ["ES256"]\n'
    (issuer,) = load({}, {}, toml(tmp_path / "a.toml", text)).issuers
    assert issuer.issuer == "https://a.example"


@pytest.mark.parametrize("content", [b"a = ", b"\xff\xfe"])
def test_a_file_that_is_no_toml_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.toml").write_bytes(content)
    (problem,) = problems_of(config=tmp_path / "a.toml")
    assert problem.startswith(f"{tmp_path / 'a.toml'}: cannot be read as TOML")


def test_a_named_file_that_is_not_there_is_an_error() -> None:
    assert problems_of(config=Path("no.toml")) == ["no.toml: there is no such file (from --config)"]
    assert problems_of(environ={"RESTANTE_CONFIG": "no.toml"}) == [
        "no.toml: there is no such file (from RESTANTE_CONFIG)"
    ]


def test_settings_that_contradict_each_other_are_an_error() -> None:
    (problem,) = problems_of({"outbox_retry_base_seconds": "10", "outbox_retry_max_seconds": "5"})
    assert problem.startswith("outbox_retry_base_seconds: expected at most outbox_retry_max_seconds")


def test_several_workers_need_a_database_that_can_be_shared() -> None:
    with pytest.raises(SettingsError, match="workers: 2 is given, but the embedded database is one process's alone"):
        refuse_unshared(2, is_shared=False)
    refuse_unshared(1, is_shared=False)
    refuse_unshared(8, is_shared=True)
