"""The error codes of Open Banking's versions, and what its schemas demand of every response."""

from typing import Any

from tests.server.live_server import RawResponse

MEDIA_TYPE = b"application/json; charset=utf-8"

# Of version 4.0, by the code of version 3.1 after UK.OBIE.
SHORT_CODES = {
    "UnexpectedError": "U000",
    "Field.Expected": "U001",
    "Field.Invalid": "U002",
    "Field.Missing": "U004",
    "Field.Unexpected": "U005",
    "Header.Invalid": "U006",
    "Header.Missing": "U007",
    "Resource.InvalidFormat": "U010",
    "Resource.NotFound": "U011",
    "Signature.Invalid": "U015",
    "Signature.InvalidClaim": "U016",
    "Signature.MissingClaim": "U017",
    "Signature.Malformed": "U018",
    "Signature.Missing": "U019",
    "Unsupported.EventType": "U024",
    "Reauthenticate": "U028",
    "Rules.ResourceAlreadyExists": "U029",
}


def error_code(name: str, path: str, root_version: str) -> str:
    """The code that a path's version sends for the error of this name."""
    is_v3 = path.startswith("/open-banking/v3.1/") or (not path.startswith("/open-banking/") and root_version == "v3.1")
    return f"UK.OBIE.{name}" if is_v3 else SHORT_CODES[name]


def check_open_banking(response: RawResponse, body: Any) -> None:
    """Check the media type and the body of a response of /events or /event-subscriptions, a success or an error."""
    if not response.body:
        assert response.header(b"content-type") is None
        return
    assert response.header(b"content-type") == MEDIA_TYPE
    if response.status >= 400:
        _check_error(body)
    elif "sets" in body:
        assert set(body) == {"sets", "moreAvailable"}
        assert type(body["moreAvailable"]) is bool
        assert all(isinstance(token, str) for token in body["sets"].values())
    else:
        _check_subscriptions(body)


def _check_error(body: Any) -> None:
    """`OBErrorResponse1`."""
    assert set(body) == {"Code", "Id", "Message", "Errors"}
    assert 1 <= len(body["Code"]) <= 40
    assert 1 <= len(body["Id"]) <= 40
    assert 1 <= len(body["Message"]) <= 500
    assert len(body["Errors"]) >= 1
    for item in body["Errors"]:
        assert {"ErrorCode", "Message"} <= set(item) <= {"ErrorCode", "Message", "Path"}
        assert len(item["ErrorCode"]) == 4 or item["ErrorCode"].startswith("UK.OBIE.")
        assert 1 <= len(item["Message"]) <= 500
        assert 1 <= len(item.get("Path", "-")) <= 500


def _check_subscriptions(body: Any) -> None:
    """`OBEventSubscriptionResponse1` and `OBEventSubscriptionsResponse1`."""
    assert set(body) == {"Data", "Links", "Meta"}
    assert set(body["Links"]) == {"Self"}
    assert body["Links"]["Self"].startswith(("http://", "https://"))
    assert body["Meta"] == {}
    for data in body["Data"].get("EventSubscription", [body["Data"]]):
        if data:
            assert 1 <= len(data["EventSubscriptionId"]) <= 40
            assert 1 <= len(data["Version"]) <= 10
            assert set(data) <= {"EventSubscriptionId", "Version", "CallbackUrl", "EventTypes"}
