"""What receivers do with a stream of shared signals beside configuring it: status, subjects, verification; and how they
find out where all of this is."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from restante.database.database import Database
from restante.events import stream_subjects, streams
from restante.events.routes_streams import POLL, PUSH, STREAM_QUERY, STREAMS_PATH, TAG, Id, named_stream
from restante.events.ssf_options import SignalsOptions
from restante.events.ssf_wire import SHAPE
from restante.events.stream_subjects import Word
from restante.events.streams import Stream
from restante.web.answer import Answer
from restante.web.ask import Ask
from restante.web.routes import Access, Route

STATUS_PATH = "/ssf/status"
ADD_PATH = "/ssf/subjects:add"
REMOVE_PATH = "/ssf/subjects:remove"
VERIFY_PATH = "/ssf/verify"

Reason = Annotated[str, Meta(max_length=256, pattern=r"^[^\x00]*\Z")]


class StatusBody(msgspec.Struct):
    stream_id: Id
    status: Literal["enabled", "paused", "disabled"]
    reason: Reason | None = None


class SubjectBody(msgspec.Struct):
    stream_id: Id
    subject: dict[str, Any]


class NewSubjectBody(SubjectBody):
    verified: bool = True


class VerificationBody(msgspec.Struct):
    stream_id: Id
    state: Annotated[str, Meta(max_length=1024, pattern=r"^[^\x00]*\Z")] | None = None


class StatusView(msgspec.Struct, omit_defaults=True):
    stream_id: str
    status: Literal["enabled", "paused", "disabled"]
    reason: str | None = None


class Scheme(msgspec.Struct):
    spec_urn: str


class TransmitterView(msgspec.Struct):
    """The transmitter's configuration."""

    spec_version: str
    issuer: str
    jwks_uri: str
    delivery_methods_supported: list[str]
    configuration_endpoint: str
    status_endpoint: str
    add_subject_endpoint: str
    remove_subject_endpoint: str
    verification_endpoint: str
    authorization_schemes: list[Scheme]
    default_subjects: Literal["ALL", "NONE"]
    events_supported: list[str]


class StreamControlRoutes:
    def __init__(self, database: Database, options: SignalsOptions) -> None:
        self._database = database
        self._options = options

    def routes(self) -> list[Route]:
        def route(method: str, path: str, handler: Any, access: Access, summary: str, **more: Any) -> Route:
            return Route(method, path, handler, access, summary, SHAPE, TAG, **more)

        manage, read = Access.signals_manage, Access.signals_read
        return [
            *(
                route("GET", path, self.discover, Access.open, "Where and how signals are shared")
                for path in self._options.discovery_paths()
            ),
            route("GET", STATUS_PATH, self.status, read, "Show the status", query=STREAM_QUERY, refusals=(400, 404)),
            route("POST", STATUS_PATH, self.set_status, manage, "Change the status", refusals=(404,)),
            route("POST", ADD_PATH, self.add_subject, manage, "Follow a subject", refusals=(404,)),
            route(
                "POST",
                REMOVE_PATH,
                self.remove_subject,
                manage,
                "Follow a subject no more",
                status=204,
                refusals=(404,),
            ),
            route(
                "POST",
                VERIFY_PATH,
                self.verify,
                manage,
                "Have a verification event sent",
                status=204,
                refusals=(404, 429),
            ),
        ]

    async def discover(self, _ask: Ask) -> TransmitterView:
        """The addresses of all endpoints, and what is supported."""
        base, rules = self._options.base_url, self._options.rules
        return TransmitterView(
            spec_version="1_0",
            issuer=self._options.issuer,
            jwks_uri=f"{base}/jwks.json",
            delivery_methods_supported=[PUSH, POLL],
            configuration_endpoint=base + STREAMS_PATH,
            status_endpoint=base + STATUS_PATH,
            add_subject_endpoint=base + ADD_PATH,
            remove_subject_endpoint=base + REMOVE_PATH,
            verification_endpoint=base + VERIFY_PATH,
            authorization_schemes=[Scheme("urn:ietf:rfc:6749"), Scheme("urn:ietf:rfc:8705")],
            default_subjects="ALL" if rules.all_subjects else "NONE",
            events_supported=list(rules.events_supported),
        )

    async def status(self, ask: Ask) -> StatusView:
        """Whether events are handed out (`enabled`), kept (`paused`), or neither (`disabled`)."""
        return _status_view(await self._database.read(streams.get, ask.client.id, named_stream(ask)))

    async def set_status(self, ask: Ask, body: StatusBody) -> StatusView:
        """A paused stream keeps what is published, a disabled one drops what it had."""
        changed = await self._database.write(
            streams.set_status, ask.client.id, body.stream_id, body.status, body.reason
        )
        return _status_view(changed)

    async def add_subject(self, ask: Ask, body: NewSubjectBody) -> Answer:
        """Answered alike whether we know the subject or not. `403` if the stream has named as many as it may."""
        await self._say(ask, body.stream_id, Word(body.subject, is_added=True, is_verified=body.verified))
        return Answer(200)

    async def remove_subject(self, ask: Ask, body: SubjectBody) -> Answer:
        """Answered alike whether we know the subject or not. `403` if the stream has named as many as it may."""
        await self._say(ask, body.stream_id, Word(body.subject, is_added=False))
        return Answer(204)

    async def _say(self, ask: Ask, stream_id: str, word: Word) -> None:
        subjects_max = self._options.rules.subjects_max
        await self._database.write(stream_subjects.say, ask.client.id, stream_id, word, subjects_max)

    async def verify(self, ask: Ask, body: VerificationBody) -> Answer:
        """The event comes through the stream, with the `state`; not more often than `min_verification_interval`."""
        rules = self._options.rules
        await self._database.write(streams.verify, rules, ask.client.id, body.stream_id, body.state)
        return Answer(204)


def _status_view(stream: Stream) -> StatusView:
    return StatusView(stream.public_id, stream.status, stream.status_reason)
