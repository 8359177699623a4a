"""Receiver routes of Shared Signals for status, subjects and verification, and the transmitter configuration."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from restante.database.database import Database
from restante.events.publishing.token_claims import SUBJECT_FORMAT_CHARACTERS_MAX
from restante.events.signing.jws import SHARED_SIGNALS_ALGORITHM
from restante.events.ssf import stream_subjects, streams
from restante.events.ssf.options import SharedSignalsOptions
from restante.events.ssf.response_format import RESPONSE_FORMAT
from restante.events.ssf.routes_streams import POLL, PUSH, STREAM_QUERY, STREAMS_PATH, TAG, StreamId, stream_id_of
from restante.events.ssf.stream_subjects import SubjectPreference
from restante.events.ssf.streams import Stream
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Route, RouteGroup

STATUS_PATH = "/ssf/status"
ADD_PATH = "/ssf/subjects:add"
REMOVE_PATH = "/ssf/subjects:remove"
VERIFY_PATH = "/ssf/verify"

_SUBJECT = {"stream_id": "f67e39a0", "subject": {"format": "email", "email": "user@example.com"}}
_STATUS = {"stream_id": "f67e39a0", "status": "paused", "reason": "maintenance"}

Reason = Annotated[str, Meta(max_length=256, pattern=r"^[^\x00]*\Z")]


class StreamStatusChange(msgspec.Struct):
    stream_id: StreamId
    status: Literal["enabled", "paused", "disabled"]
    reason: Reason | None = None


class SubjectBody(msgspec.Struct):
    stream_id: StreamId
    subject: Annotated[
        dict[str, Any],
        # For the document: `check_subject` also checks the members that the format requires.
        Meta(
            extra_json_schema={
                "required": ["format"],
                "properties": {
                    "format": {"type": "string", "minLength": 1, "maxLength": SUBJECT_FORMAT_CHARACTERS_MAX}
                },
            }
        ),
    ]


class NewSubjectBody(SubjectBody):
    verified: bool = True


class VerificationBody(msgspec.Struct):
    stream_id: StreamId
    state: Annotated[str, Meta(max_length=1024, pattern=r"^[^\x00]*\Z")] | None = None


class StatusView(msgspec.Struct, omit_defaults=True):
    stream_id: str
    status: Literal["enabled", "paused", "disabled"]
    reason: str | None = None


class AuthorizationScheme(msgspec.Struct):
    spec_urn: str


class TransmitterView(msgspec.Struct):
    """The transmitter configuration."""

    spec_version: str
    issuer: str
    jwks_uri: str
    delivery_methods_supported: list[str]
    configuration_endpoint: str
    status_endpoint: str
    add_subject_endpoint: str
    remove_subject_endpoint: str
    verification_endpoint: str
    authorization_schemes: list[AuthorizationScheme]
    default_subjects: Literal["ALL", "NONE"]
    events_supported: list[str]


class StreamControlRoutes:
    def __init__(self, database: Database, options: SharedSignalsOptions) -> None:
        self._database = database
        self._options = options

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT)

        manage, read = Access.ssf_manage, Access.ssf_read
        return [
            *(
                group.get(path, self.discover, Access.open, "Show the transmitter configuration")
                for path in self._options.discovery_paths()
            ),
            group.get(
                STATUS_PATH, self.status, read, "Show the status of a stream", query=STREAM_QUERY, errors=(400, 404)
            ),
            group.post(
                STATUS_PATH,
                self.set_status,
                manage,
                "Change the status of a stream",
                examples=(_STATUS,),
                errors=(404,),
            ),
            group.post(ADD_PATH, self.add_subject, manage, "Follow a subject", examples=(_SUBJECT,), errors=(404,)),
            group.post(
                REMOVE_PATH,
                self.remove_subject,
                manage,
                "Stop following a subject",
                status=204,
                errors=(404,),
                examples=(_SUBJECT,),
            ),
            group.post(
                VERIFY_PATH,
                self.verify,
                manage,
                "Request a verification event",
                status=204,
                errors=(404, 429),
                examples=({"stream_id": "f67e39a0", "state": "VGhpcyBpcyBhbiBleGFtcGxl"},),
            ),
        ]

    async def discover(self, _request: ApiRequest) -> TransmitterView:
        """The URLs of all endpoints, and the supported features."""
        base, rules = self._options.base_url, self._options.rules
        return TransmitterView(
            spec_version="1_0",
            issuer=self._options.issuer,
            # The one algorithm of Shared Signals: receivers must not fail at keys of types that they do not know.
            jwks_uri=f"{base}/jwks.json?alg={SHARED_SIGNALS_ALGORITHM}",
            delivery_methods_supported=[PUSH, POLL],
            configuration_endpoint=base + STREAMS_PATH,
            status_endpoint=base + STATUS_PATH,
            add_subject_endpoint=base + ADD_PATH,
            remove_subject_endpoint=base + REMOVE_PATH,
            verification_endpoint=base + VERIFY_PATH,
            authorization_schemes=_authorization_schemes(self._options),
            default_subjects="ALL" if rules.all_subjects else "NONE",
            events_supported=list(rules.events_supported),
        )

    async def status(self, request: ApiRequest) -> StatusView:
        """Show whether events are delivered (`enabled`), kept (`paused`) or dropped (`disabled`)."""
        return _status_view(await self._database.read(streams.get, request.client.id, stream_id_of(request)))

    async def set_status(self, request: ApiRequest, body: StreamStatusChange) -> StatusView:
        """Change the status. A paused stream keeps its events; a disabled one drops them."""
        changed = await self._database.write(
            streams.set_status, request.client.id, body.stream_id, body.status, body.reason
        )
        return _status_view(changed)

    async def add_subject(self, request: ApiRequest, body: NewSubjectBody) -> ApiResponse:
        """Follow a subject, known or unknown to the server. `403` if the stream has reached its number of subjects."""
        preference = SubjectPreference(body.subject, is_added=True, is_verified=body.verified)
        await self._set_preference(request, body.stream_id, preference)
        return ApiResponse(200)

    async def remove_subject(self, request: ApiRequest, body: SubjectBody) -> ApiResponse:
        """Stop following a subject. `403` if it is new and the stream has reached its number of subjects."""
        await self._set_preference(request, body.stream_id, SubjectPreference(body.subject, is_added=False))
        return ApiResponse(204)

    async def _set_preference(self, request: ApiRequest, stream_id: str, preference: SubjectPreference) -> None:
        subjects_max = self._options.rules.subjects_max
        await self._database.write(
            stream_subjects.set_preference, request.client.id, stream_id, preference, subjects_max
        )

    async def verify(self, request: ApiRequest, body: VerificationBody) -> ApiResponse:
        """Publish a verification event with the `state` to the stream, at most once in `min_verification_interval`."""
        rules = self._options.rules
        await self._database.write(streams.verify, rules, request.client.id, body.stream_id, body.state)
        return ApiResponse(204)


def _authorization_schemes(options: SharedSignalsOptions) -> list[AuthorizationScheme]:
    """OAuth 2.0; also tokens bound to certificates, if the server sees certificates."""
    names = ["urn:ietf:rfc:6749", "urn:ietf:rfc:8705"] if options.has_certificates else ["urn:ietf:rfc:6749"]
    return [AuthorizationScheme(name) for name in names]


def _status_view(stream: Stream) -> StatusView:
    return StatusView(stream.public_id, stream.status, stream.status_reason)
