import pytest

from restante.commands.rate_windows import RateLimit, RateRules
from restante.server.command_setting_kinds import CommandTypes, RateLimits
from restante.server.settings_sources import load, resolve


def test_reads_rate_limits_from_text_and_from_a_table() -> None:
    wanted = RateRules(
        {
            "MINER_RESTART": RateLimit(7, 60),
            "DEVICE_REBOOT": RateLimit(5, 300),
            "HASHING_DISABLE": RateLimit(10, 300),
            "SET_FAN": RateLimit(1, 5),
        },
        RateLimit(30, 10),
    )
    assert RateLimits().read("restart = 7/60, SET_FAN=1/5,default=30/10,") == wanted
    assert RateLimits().read({"restart": [7, 60], "SET_FAN": [1, 5], "default": [30, 10]}) == wanted
    assert RateLimits().read(wanted) is wanted
    assert RateLimits().read("") == RateRules()


@pytest.mark.parametrize(
    "raw",
    [
        "SET_FAN",
        "SET_FAN=5",
        "SET_FAN=5/x",
        "SET_FAN=0/5",
        "SET_FAN=5/0",
        "NONE=5/5",
        "SET_FAN=5/99999999",
        {"SET_FAN": 5},
        {"SET_FAN": [5]},
        {"SET_FAN": ["5", "5"]},
        5,
    ],
)
def test_refuses_what_is_no_rate_limit(raw: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 — what is wrong is said by whoever reads the settings
        RateLimits().read(raw)


def test_reads_command_types() -> None:
    assert CommandTypes().read("reboot, SET_FAN") == ("MINER_RESTART", "SET_FAN")
    assert CommandTypes().read(["POWER_MODE"]) == ("POWER_MODE",)
    assert str(CommandTypes().read("stop,start")) == "HASHING_DISABLE, HASHING_ENABLE"
    with pytest.raises(ValueError, match="EXPLODE is no command type"):
        CommandTypes().read("EXPLODE")


def test_the_contracts_variables_count_without_the_prefix() -> None:
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


def test_with_the_prefix_they_come_first() -> None:
    resolved = resolve({}, {"MAX_COMMAND_RETRIES": "4", "RESTANTE_MAX_COMMAND_RETRIES": "5"})
    assert resolved.settings.max_command_retries == 5
    assert resolved.origins["max_command_retries"] == "RESTANTE_MAX_COMMAND_RETRIES"
    assert resolve({}, {"MAX_COMMAND_RETRIES": "4"}).origins["max_command_retries"] == "MAX_COMMAND_RETRIES"


def test_other_bare_names_are_nobodys() -> None:
    assert load({}, {"POLL_BURST": "99"}).poll_burst == 20
