from pathlib import Path

import pytest

from restante.server.config.setting_types import Address
from restante.server.config.settings import DECLARATIONS, Settings
from restante.server.config.settings_sources import SettingsError, check_workers, load, resolve


@pytest.fixture(autouse=True)
def _in_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_without_sources_all_values_are_defaults() -> None:
    resolved = resolve({}, {"PATH": "/bin"})
    assert resolved.settings == Settings()
    assert set(resolved.origins.values()) == {"default"}


def test_flag_environment_file_and_default_take_precedence_in_this_order(tmp_path: Path) -> None:
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


def test_every_setting_can_be_set_by_its_variable() -> None:
    values = {"public_url": "https://a.example", "mtls_url": "https://a.example", "master_key": "ab" * 32}
    values["master_key_next"] = "cd" * 32
    values |= {"event_issuer": "https://a.example", "metrics_token": "a-token-of-the-scraper"}
    values |= {"issuers": "[]", "authorization_servers": "[]", "database": "postgresql://a@b/c"}
    values |= {"redis_url": "redis://a:6379/0", "metrics_listen": "127.0.0.1:9100"}
    # These are valid only together.
    together = dict.fromkeys(("tls_certificate", "tls_key", "tls_client_ca", "client_crl"), "a.pem")
    for name, declaration in DECLARATIONS.items():
        raw = values.get(name) or str(declaration.default)
        given = together if name in together else {name: raw}
        environ = {DECLARATIONS[each].variable: value for each, value in given.items()}
        assert resolve({}, environ).origins[name] == declaration.variable


@pytest.mark.parametrize("wrong", ["mysql://ada:opensesame@db/x", "postgresql://ada:opensesame@db", "opensesame"])
def test_invalid_database_url_is_not_quoted(wrong: str) -> None:
    (problem,) = problems_of(environ={"RESTANTE_DATABASE": wrong})
    assert "opensesame" not in problem
    assert "database: expected postgresql://" in problem


def test_file_in_data_folder_is_found(tmp_path: Path) -> None:
    toml(tmp_path / "data" / "restante.toml", "poll_burst = 7")
    toml(tmp_path / "other" / "restante.toml", "poll_burst = 8")
    assert load({}, {}).poll_burst == 7
    assert load({"data": "other"}, {}).poll_burst == 8
    assert load({}, {"RESTANTE_DATA": "other"}).poll_burst == 8


def test_named_file_replaces_file_of_data_folder(tmp_path: Path) -> None:
    toml(tmp_path / "data" / "restante.toml", "poll_burst = 7")
    first, second = toml(tmp_path / "1.toml", "poll_burst = 1"), toml(tmp_path / "2.toml", "poll_burst = 2")
    assert load({}, {"RESTANTE_CONFIG": str(first)}).poll_burst == 1
    assert load({}, {"RESTANTE_CONFIG": str(first)}, second).poll_burst == 2


def test_only_named_file_may_set_data_folder(tmp_path: Path) -> None:
    assert load({}, {}, toml(tmp_path / "a.toml", 'data = "elsewhere"')).data == Path("elsewhere")
    toml(tmp_path / "data" / "restante.toml", 'data = "elsewhere"')
    (problem,) = problems_of()
    assert problem.startswith("data: a file in the data folder cannot set")


def test_invalid_value_is_named_with_origin_and_expectation(tmp_path: Path) -> None:
    assert problems_of(environ={"RESTANTE_POLL_BURST": "many"}) == [
        "poll_burst: expected a whole number from 1 to 1000000, got 'many' (from RESTANTE_POLL_BURST)"
    ]
    assert problems_of(flags={"listen": "x"})[0].endswith("got 'x' (from --listen)")
    config = toml(tmp_path / "a.toml", 'log_level = "loud"')
    assert problems_of(config=config) == [
        f"log_level: expected one of debug, info, warning, error, got 'loud' (from {config})"
    ]


def test_empty_variable_is_an_invalid_value() -> None:
    """A master key that was lost on the way must not lead to a new key."""
    assert problems_of(environ={"RESTANTE_MASTER_KEY": ""})[0].startswith("master_key: expected 32 bytes")


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    config = toml(tmp_path / "a.toml", "outbox_batch = 0\nnothing = 1")
    problems = problems_of({"listen": "x"}, {"RESTANTE_POLL_BURST": "", "RESTANTE_NOTHING": "1"}, config)
    assert len(problems) == 5


@pytest.mark.parametrize(
    ("variable", "hint"),
    [("RESTANTE_POLL_BRUST", "; did you mean RESTANTE_POLL_BURST?"), ("RESTANTE_XYZZY", "")],
)
def test_unknown_variable_is_refused(variable: str, hint: str) -> None:
    assert problems_of(environ={variable: "1"}) == [f"{variable}: there is no such setting{hint}"]


def test_unknown_key_is_refused(tmp_path: Path) -> None:
    config = toml(tmp_path / "a.toml", "poll_brust = 1\n[server]\nlisten = 'x'")
    assert problems_of(config=config) == [
        f"poll_brust: there is no such setting; did you mean poll_burst? (from {config})",
        f"server: there is no such setting (from {config})",
    ]


def test_kubernetes_service_variables_are_ignored() -> None:
    environ = dict.fromkeys(
        ("RESTANTE_SERVICE_HOST", "RESTANTE_SERVICE_PORT", "RESTANTE_PORT", "RESTANTE_PORT_8080_TCP_ADDR"),
        "x",
    )
    assert load({}, environ) == Settings()


def test_secret_is_read_from_environment_only_and_never_shown(tmp_path: Path) -> None:
    key = "ab" * 32
    assert load({}, {"RESTANTE_MASTER_KEY": key}).master_key == key
    (problem,) = problems_of(config=toml(tmp_path / "a.toml", f'master_key = "{key}"'))
    assert "RESTANTE_MASTER_KEY only" in problem
    (problem,) = problems_of(environ={"RESTANTE_MASTER_KEY": "hunter2hunter2"})
    assert "hunter2" not in problem


def test_long_invalid_value_is_shortened() -> None:
    (problem,) = problems_of(environ={"RESTANTE_LOG_LEVEL": "x" * 5000})
    assert len(problem) < 200


def test_invalid_issuer_is_explained() -> None:
    (problem,) = problems_of(environ={"RESTANTE_ISSUERS": '[{"issuer": "a"}]'})
    assert problem.startswith("issuers: expected a list of tables")
    assert "`jwks`" in problem


def test_issuers_are_read_from_tables(tmp_path: Path) -> None:
    text = '[[issuers]]\nissuer = "https://a.example"\njwks = "a.json"\nalgorithms = ["ES256"]\n'
    (issuer,) = load({}, {}, toml(tmp_path / "a.toml", text)).issuers
    assert issuer.issuer == "https://a.example"


@pytest.mark.parametrize("content", [b"a = ", b"\xff\xfe"])
def test_file_that_is_no_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.toml").write_bytes(content)
    (problem,) = problems_of(config=tmp_path / "a.toml")
    assert problem.startswith(f"{tmp_path / 'a.toml'}: cannot be read as TOML")


def test_missing_named_file_is_refused() -> None:
    assert problems_of(config=Path("no.toml")) == ["no.toml: there is no such file (from --config)"]
    assert problems_of(environ={"RESTANTE_CONFIG": "no.toml"}) == [
        "no.toml: there is no such file (from RESTANTE_CONFIG)"
    ]


def test_retry_base_above_maximum_is_refused() -> None:
    (problem,) = problems_of({"outbox_retry_base_seconds": "10", "outbox_retry_max_seconds": "5"})
    assert problem.startswith("outbox_retry_base_seconds: expected at most outbox_retry_max_seconds")


def test_several_workers_need_shared_database() -> None:
    with pytest.raises(SettingsError, match="workers: got 2, but only one process can use the embedded database"):
        check_workers(2, is_shared=False)
    check_workers(1, is_shared=False)
    check_workers(8, is_shared=True)


def test_contract_variables_need_no_prefix() -> None:
    environ = {
        "ENABLE_COMMAND_SIGNATURE": "true",
        "REQUIRE_ACK_NONCE": "true",
        "COMMAND_LEASE_DURATION_SEC": "61",
        "MAX_COMMAND_RETRIES": "4",
        "DEFAULT_RETRY_BACKOFF_SEC": "31",
    }
    settings = load({}, environ)
    assert settings.enable_command_signature
    assert settings.require_ack_nonce
    assert settings.command_lease_duration_sec == 61
    assert settings.max_command_retries == 4
    assert settings.default_retry_backoff_sec == 31


def test_prefixed_variable_takes_precedence() -> None:
    resolved = resolve({}, {"MAX_COMMAND_RETRIES": "4", "RESTANTE_MAX_COMMAND_RETRIES": "5"})
    assert resolved.settings.max_command_retries == 5
    assert resolved.origins["max_command_retries"] == "RESTANTE_MAX_COMMAND_RETRIES"
    assert resolve({}, {"MAX_COMMAND_RETRIES": "4"}).origins["max_command_retries"] == "MAX_COMMAND_RETRIES"


def test_other_variables_without_prefix_are_ignored() -> None:
    assert load({}, {"POLL_BURST": "99"}).poll_burst == 20


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"tls_certificate": "a"}, "tls_certificate and tls_key"),
        ({"tls_key": "a"}, "tls_certificate and tls_key"),
        ({"tls_client_ca": "a"}, "tls_client_ca"),
        ({"forwarded_header": "forwarded"}, "forwarded_header: expected together with trusted_proxies"),
        ({"events_base": "/events-api", "events_base_v3": "/events-api"}, "events_base and events_base_v3"),
        (
            {"authorization_servers": '[{"issuer":"https://a.example","jwks":"x","algorithms":["PS256"]}]'},
            "authorization_servers",
        ),
    ],
)
def test_contradicting_settings_are_refused(flags: dict[str, object], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        resolve(flags, {})
