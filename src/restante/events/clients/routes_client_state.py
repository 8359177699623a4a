"""Operator routes for the state of one client: why it has not got its events, and its tags."""

from collections.abc import Callable

from restante.database.connection import Connection
from restante.database.database import Database
from restante.events.clients import client_scope, clients
from restante.events.publishing import client_explanation, event_audit
from restante.events.publishing.client_explanation import ClientExplanation
from restante.events.response_format import RESPONSE_FORMAT
from restante.identity import tags
from restante.identity.grants import Area
from restante.identity.tags import TagList, check_tag
from restante.web.request import ApiRequest
from restante.web.routes import Access, Route, RouteGroup

# The last poll of a client, by the id of its row, in milliseconds: that of memory if it is newer than the stored one.
NewestPoll = Callable[[int, int | None], int | None]


class ClientStateRoutes:
    def __init__(self, database: Database, newest_poll: NewestPoll) -> None:
        self._database = database
        self._newest_poll = newest_poll

    def routes(self) -> list[Route]:
        group = RouteGroup("event clients", RESPONSE_FORMAT, prefix="/admin/clients/{client_id}", area=Area.events)
        tag = "/tags/{tag}"
        return [
            group.get("/why", self.why, Access.read, "Explain why a client has not got its events", errors=(404,)),
            group.put(tag, self.add_tag, Access.operate, "Add a tag to the client", errors=(404, 409)),
            group.delete(tag, self.remove_tag, Access.operate, "Remove a tag from the client", errors=(404,)),
        ]

    async def why(self, request: ApiRequest) -> ClientExplanation:
        """What the client waits for, in one sentence and in fields."""
        client_id = _client_id_of(request)
        client = await self._database.read(clients.get, client_id)
        polled_ms = self._newest_poll(client.id, client.last_poll_at)
        return await self._database.read(client_explanation.explain, client_id, polled_ms)

    async def add_tag(self, request: ApiRequest) -> TagList:
        """All tags of the client. Adding a tag that the client has changes nothing."""
        tag = check_tag(request.path_text("tag"))
        return await self._database.write(_change_tag, _client_id_of(request), tag, request.actor, is_added=True)

    async def remove_tag(self, request: ApiRequest) -> TagList:
        """All tags of the client. Removing a tag that the client does not have changes nothing."""
        tag = check_tag(request.path_text("tag"))
        return await self._database.write(_change_tag, _client_id_of(request), tag, request.actor, is_added=False)


def _client_id_of(request: ApiRequest) -> str:
    client_id = request.path_text("client_id")
    client_scope.check_client(request.allowed, client_id)
    return client_id


def _change_tag(conn: Connection, client_id: str, tag: str, actor: str, *, is_added: bool) -> TagList:
    client = clients.get(conn, client_id)
    if is_added and tags.add(conn, "client", client.id, tag):
        event_audit.record(conn, actor, "client.tagged", client_id, {"tag": tag})
    if not is_added and tags.remove(conn, "client", client.id, tag):
        event_audit.record(conn, actor, "client.untagged", client_id, {"tag": tag})
    return TagList(tags.tags_of(conn, "client", client.id))
