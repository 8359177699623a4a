"""People in the arguments of commands: by id, by e-mail, or the person who is signed in."""

from typing import Any

from restante_client import BlockingOperatorClient

from restante.cli.remote.values import is_number
from restante.core.errors import BadInput, NotFound


def user_id_of(client: BlockingOperatorClient, user: str | None) -> int:
    """The id of a person who is named by id or e-mail; without one, of the person who is signed in."""
    if user is None:
        own = who_am_i(client).get("user_id")
        if own is None:
            raise BadInput("--user", "a user's id or e-mail, because you are not signed in as a person")
        return int(own)
    if is_number(user):
        return int(user)
    found = [item["id"] for item in client.people.list() if item["email"] == user.strip().lower()]
    if not found:
        raise NotFound(f"there is no user {user}")
    return int(found[0])


def who_am_i(client: BlockingOperatorClient) -> dict[str, Any]:
    """The caller as the server sees it: kind, name, role and user id."""
    status: dict[str, Any] = client.request("GET", "/auth/status")["data"]
    return status.get("caller") or {}
