import pytest

from restante.commands.dispatch.rate_limits import RateLimit, RateRules
from restante.core.events.addresses import AllowedTargets
from restante.server.config.protocol_setting_types import (
    CommandTypes,
    EventTypes,
    FinancialId,
    PushTargets,
    RateLimits,
    Scopes,
    Uri,
)
from restante.server.config.setting_types import CommaList, InvalidValue


def test_rate_limits_are_parsed_from_text_and_table() -> None:
    expected = RateRules(
        {
            "MINER_RESTART": RateLimit(7, 60),
            "DEVICE_REBOOT": RateLimit(5, 300),
            "HASHING_DISABLE": RateLimit(10, 300),
            "SET_FAN": RateLimit(1, 5),
        },
        RateLimit(30, 10),
    )
    assert RateLimits().parse("restart = 7/60, SET_FAN=1/5,default=30/10,") == expected
    assert RateLimits().parse({"restart": [7, 60], "SET_FAN": [1, 5], "default": [30, 10]}) == expected
    assert RateLimits().parse(expected) is expected
    assert RateLimits().parse("") == RateRules()


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
def test_invalid_rate_limit_is_refused(raw: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 — the caller adds what was expected
        RateLimits().parse(raw)


def test_command_types_are_parsed() -> None:
    assert CommandTypes().parse("reboot, SET_FAN") == ("MINER_RESTART", "SET_FAN")
    assert CommandTypes().parse(["POWER_MODE"]) == ("POWER_MODE",)
    assert str(CommandTypes().parse("stop,start")) == "HASHING_DISABLE, HASHING_ENABLE"
    with pytest.raises(ValueError, match="EXPLODE is no command type"):
        CommandTypes().parse("EXPLODE")


@pytest.mark.parametrize("raw", ["127.0.0.0/8, hooks.internal.example", ["127.0.0.0/8", "hooks.internal.example"]])
def test_push_targets_are_networks_and_hosts(raw: object) -> None:
    allowed = PushTargets().parse(raw)
    assert str(allowed) == "127.0.0.0/8, hooks.internal.example"
    assert PushTargets().parse(allowed) is allowed


def test_empty_push_targets_allow_none() -> None:
    assert PushTargets().parse("") == AllowedTargets()


@pytest.mark.parametrize("raw", ["10.0.0.1/8", "https://a.example", "a b"])
def test_invalid_push_target_is_explained(raw: str) -> None:
    with pytest.raises(InvalidValue, match="neither a network"):
        PushTargets().parse(raw)


@pytest.mark.parametrize("setting_type", [PushTargets(), EventTypes()])
def test_values_of_other_types_are_refused(setting_type: PushTargets | EventTypes) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        setting_type.parse(7)
    assert setting_type.expected


def test_event_types_are_unique_uris() -> None:
    names = EventTypes().parse("urn:a:b, https://x.example/y, urn:a:b")
    assert names == ("urn:a:b", "https://x.example/y")
    assert str(names) == "urn:a:b, https://x.example/y"
    assert isinstance(EventTypes().parse(["urn:a:b"]), CommaList)
    with pytest.raises(InvalidValue, match="session-revoked"):
        EventTypes().parse("session-revoked")


@pytest.mark.parametrize("raw", ["", "a b", "a\r\nx: y", "ä", "a" * 129, 7, None])
def test_financial_id_that_is_no_header_value_is_refused(raw: object) -> None:
    assert FinancialId().parse("0015800001041RHAAY") == "0015800001041RHAAY"
    with pytest.raises(ValueError, match=r"^$"):
        FinancialId().parse(raw)


def test_scopes_are_unique_scopes_of_clients() -> None:
    assert Scopes().parse("eventpolling, accounts, eventpolling") == ("eventpolling", "accounts")
    assert Scopes().parse(["payments"]) == ("payments",)


@pytest.mark.parametrize("raw", ["", ",", "openid", "accounts payments", 7, []])
def test_unknown_or_no_scopes_are_refused(raw: object) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        Scopes().parse(raw)


@pytest.mark.parametrize("raw", ["https://bank.example", "https://bank.example/issuer", "urn:bank:1"])
def test_uri_is_parsed(raw: str) -> None:
    assert Uri().parse(raw) == raw


@pytest.mark.parametrize("raw", ["", "bank", "https://", "https://a b", 7, None])
def test_invalid_uri_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        Uri().parse(raw)
