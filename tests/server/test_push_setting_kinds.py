"""Settings of pushing and of shared signals: what is taken, and what is refused with a reason."""

import pytest

from restante.core.addresses import Allowed
from restante.server.push_setting_kinds import Destinations, EventTypeNames, EventTypes
from restante.server.setting_kinds import Explained


@pytest.mark.parametrize("raw", ["127.0.0.0/8, hooks.internal.example", ["127.0.0.0/8", "hooks.internal.example"]])
def test_destinations_are_networks_and_hosts(raw: object) -> None:
    allowed = Destinations().read(raw)
    assert str(allowed) == "127.0.0.0/8, hooks.internal.example"
    assert Destinations().read(allowed) is allowed


def test_no_destination_is_no_exception() -> None:
    assert Destinations().read("") == Allowed()


@pytest.mark.parametrize("raw", ["10.0.0.1/8", "https://a.example", "a b"])
def test_what_is_no_destination_is_named(raw: str) -> None:
    with pytest.raises(Explained, match="neither a network"):
        Destinations().read(raw)


@pytest.mark.parametrize("kind", [Destinations(), EventTypes()])
def test_other_values_are_refused(kind: Destinations | EventTypes) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        kind.read(7)
    assert kind.expected


def test_event_types_are_uris_each_once() -> None:
    names = EventTypes().read("urn:a:b, https://x.example/y, urn:a:b")
    assert names == ("urn:a:b", "https://x.example/y")
    assert str(names) == "urn:a:b, https://x.example/y"
    assert isinstance(EventTypes().read(["urn:a:b"]), EventTypeNames)
    with pytest.raises(Explained, match="session-revoked"):
        EventTypes().read("session-revoked")
