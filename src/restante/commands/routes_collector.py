"""What collectors call, for the application: the plain way to the same poll and ACK that the fast lane takes."""

import asyncio
from collections.abc import Callable

from restante.commands.ack_body import AckBody, ExtendBody, read_ack
from restante.commands.ack_desk import AckDesk
from restante.commands.claims import Claim
from restante.commands.poll import LIMIT_DEFAULT, LIMIT_MAX, WAIT_MAX_SECONDS, CommandPoll
from restante.commands.wire import SHAPE
from restante.web.answer import Answer, json_answer
from restante.web.ask import INT64_MAX, Ask, parse_int
from restante.web.long_poll import long_poll
from restante.web.routes import Access, Query, Route

_LIMIT = Query(
    "limit",
    "How many commands at most.",
    {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
)
_WAIT = Query(
    "wait",
    "For how many seconds to wait for a command where there is none.",
    {"type": "integer", "minimum": 0, "maximum": WAIT_MAX_SECONDS, "default": 0},
)
_ZONE = Query("zone_id", "Only commands of this zone of the site.", {"type": "integer", "minimum": 1})


class CollectorRoutes:
    def __init__(self, poll: CommandPoll, desk: AckDesk) -> None:
        self._poll = poll
        self._desk = desk

    def routes(self) -> list[Route]:
        base = "/api/edge/v1/commands"
        poll = Route(
            "GET",
            f"{base}/poll",
            self.poll,
            Access.collector,
            "Poll for commands",
            shape=SHAPE,
            tag="collector",
            query=(_LIMIT, _WAIT, _ZONE),
            refusals=(400, 403, 503),
        )
        ack = Route(
            "POST",
            f"{base}/{{command_id}}/ack",
            self.ack,
            Access.collector,
            "Acknowledge a command",
            shape=SHAPE,
            tag="collector",
            refusals=(400, 403, 404, 409, 410, 413, 415, 503),
        )
        extend = Route(
            "POST",
            f"{base}/{{command_id}}/extend",
            self.extend,
            Access.collector,
            "Lengthen a command's lease",
            shape=SHAPE,
            tag="collector",
            refusals=(400, 403, 404, 409, 410, 413, 415, 503),
        )
        return [poll, ack, extend]

    async def poll(self, ask: Ask) -> Answer:
        """The site's commands that can be handed out now, each under a lease of its own: signed, with the nonce and
        the attempt that its ACK belongs to. With `wait`, the answer comes when there is one or the time is over."""
        limit = ask.query_int("limit", LIMIT_DEFAULT, 1, LIMIT_MAX)
        wait = ask.query_int("wait", 0, 0, WAIT_MAX_SECONDS)
        zone = ask.query_text("zone_id")
        zone_id = None if zone is None else parse_int("zone_id", zone, 1, INT64_MAX)
        if ask.request.method == "HEAD":
            # Its answer has no body: a command would be leased to somebody who is not told of it.
            return json_answer(b"")
        wanted = Claim(ask.collector, zone_id, limit)
        return await long_poll(ask.request, self._poll, lambda reply: self._poll.start(wanted, wait > 0, reply), wait)

    async def ack(self, ask: Ask, body: AckBody) -> Answer:
        """What became of a command: succeeded, failed, deferred, rejected or running. An ACK that is sent again for the
        same attempt is answered `replayed` and changes nothing; one that is not the present holder's is refused."""
        read = read_ack(body, ask.raw_body)
        return await _answered(lambda reply: self._desk.take(ask.collector, ask.path_text("command_id"), read, reply))

    async def extend(self, ask: Ask, body: ExtendBody) -> Answer:
        """A lease that ends later, for work that takes longer; its holder only, while it is live."""
        return await _answered(lambda reply: self._desk.extend(ask.collector, ask.path_text("command_id"), body, reply))


async def _answered(ask_for: Callable[[Callable[[Answer], None]], None]) -> Answer:
    """The answer that is given to a callback; nobody waits for it any more once the request was given up."""
    answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def reply(answer: Answer) -> None:
        if not answered.done():
            answered.set_result(answer)

    ask_for(reply)
    return await answered
