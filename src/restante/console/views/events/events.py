"""Events: by state, one with its token and whether its signature verifies, publishing, and the signing keys."""

import re
from dataclasses import replace
from urllib.parse import urlencode

import msgspec

from restante.console.forms.forms import Form
from restante.console.live import EVENTS
from restante.console.navigation import ROOT
from restante.console.pages import ConsoleRequest, Hit, Needs, Pages, PageSet
from restante.console.views import saved_filters
from restante.core.decoding import decode_json
from restante.core.errors import BadInput, NotFound, RestanteError
from restante.core.iso_time import parse_iso
from restante.database.database import Database
from restante.events.clients import clients
from restante.events.publishing import errored_events, listing, token_check
from restante.events.publishing.errored_events import Resolution
from restante.events.publishing.listing import STATUSES, EventDetail, EventFilter
from restante.events.publishing.publish_requests import PUBLISHING, PublishBody, PublishRequest
from restante.events.publishing.publishing import Publisher
from restante.events.signing import event_keys
from restante.events.signing.event_keys import EventKeyView
from restante.events.signing.jws import ALGORITHMS
from restante.events.signing.key_rotation import KeyRotation
from restante.identity.grants import Area, Role
from restante.web.response import ApiResponse
from restante.web.routes import Route

PATH = "/events"
EXPORT_PATH = "/admin/events/export"
KEYS_PATH = "/event-keys"
READ, OPERATE = Needs(Area.events), Needs(Area.events, Role.operator)
ADMIN = Needs(Area.events, Role.admin)
CLIENTS_MAX = 500
CALENDAR_DAYS = 45
JTI_CHARACTERS_MAX = 128
ALL_SUBSCRIBERS = "*"
_EVENT_EXAMPLE = '{\n  "urn:example:events:account-closed": {"reason": "moved"}\n}'
_FIELDS = ("recipient", "events", "sub", "txn")


class EventPages(PageSet):
    needs = READ

    def __init__(self, database: Database, rotation: KeyRotation) -> None:
        self._database = database
        self._rotation = rotation

    def routes(self, pages: Pages) -> list[Route]:
        one, key = PATH + "/{jti}", KEYS_PATH + "/{kid}"
        return [
            pages.get(PATH, self.show_list, READ),
            pages.get(PATH + "/new", self.show_form, OPERATE),
            pages.post(PATH + "/new", self.publish, OPERATE),
            pages.get(one, self.show, READ),
            pages.post(one + "/release", self.release, OPERATE),
            pages.post(one + "/drop", self.drop, OPERATE, is_final=True),
            pages.get(KEYS_PATH, self.show_keys, READ),
            pages.post(KEYS_PATH + "/rotate", self.rotate, ADMIN),
            pages.post(key + "/withdraw", self.withdraw, ADMIN, is_final=True),
        ]

    async def show_list(self, request: ConsoleRequest) -> ApiResponse:
        filters = _filters(request)
        counted = replace(filters, status=None)
        page = await request.read(listing.list_page, filters, request.page(), request.allowed)
        return request.render(
            "events/list.html",
            section="events",
            title="Events",
            topics=(EVENTS,),
            page=page,
            filters=filters,
            saved=await saved_filters.shown_filters(request, saved_filters.EVENTS),
            counts=await request.count(EVENTS, counted, lambda: listing.counting(counted, request.allowed)),
            statuses=STATUSES,
            address=request.page_link,
            values=dict(request.http.query_params),
            export_path=f"{EXPORT_PATH}?{urlencode(_api_filter(filters))}",
            bulk_path=_bulk_path(filters) if request.may(Area.events, Role.operator) else None,
            may_publish=request.may(Area.events, Role.operator),
        )

    async def show(self, request: ConsoleRequest) -> ApiResponse:
        jti = request.path_text("jti")
        event = await request.read(listing.show, jti, request.allowed)
        return request.render(
            "events/event.html",
            section="events",
            title=", ".join(map(_short_type, event.event_types)) or "Event",
            topics=(EVENTS,),
            event=event,
            check=await request.read(token_check.check, jti, request.allowed),
            steps=_steps(event),
            path=f"{ROOT}{PATH}/{jti}",
            may_resolve=event.status == "errored" and request.may(Area.events, Role.operator, event.client_id),
        )

    async def show_form(self, request: ConsoleRequest) -> ApiResponse:
        given = {"recipient": request.query_text("client") or "", "events": _EVENT_EXAMPLE}
        return await self._form(request, given)

    async def publish(self, request: ConsoleRequest) -> ApiResponse:
        form = request.form
        try:
            body = _body(form)
            if body.client_id is None:
                request.require_all("this publishes to the subscribers among all clients")
            else:
                listing.check_client(request.allowed, body.client_id)
            published = PublishRequest(body, Publisher(request.actor, None))
            result = await self._database.run_batched(PUBLISHING, published)
        except RestanteError as error:
            return await self._form(request, {name: form.text(name, 100_000) for name in _FIELDS}, error)
        created = msgspec.json.decode(result.json, type=dict[str, str | list[str]])
        jtis = [created["jti"]] if "jti" in created else created["jtis"]
        if len(jtis) == 1:
            return request.redirect(f"{ROOT}{PATH}/{jtis[0]}", done="event-published")
        return request.redirect(f"{ROOT}{PATH}", done="event-published" if jtis else "event-without-subscriber")

    async def release(self, request: ConsoleRequest) -> ApiResponse:
        return await self._resolve(request, Resolution.release, "event-released")

    async def drop(self, request: ConsoleRequest) -> ApiResponse:
        return await self._resolve(request, Resolution.drop, "event-dropped")

    async def show_keys(self, request: ConsoleRequest) -> ApiResponse:
        if not request.allowed.are_all:
            raise NotFound("The keys sign the events of all clients: your grants do not include them.")
        return request.render(
            "events/keys.html",
            section="event-keys",
            title="Signing keys",
            topics=(EVENTS,),
            keys=await request.read(event_keys.list_views),
            calendar_of=lambda key: _span(key, request.parts.rendering.now_ms()),
            algorithms=ALGORITHMS,
            may_administer=request.may(Area.events, Role.admin),
        )

    async def rotate(self, request: ConsoleRequest) -> ApiResponse:
        request.require_all("the keys sign the events of all clients")
        await self._rotation.rotate(event_keys.check_algorithm(request.form.required("alg", 20)), request.actor)
        return request.redirect(f"{ROOT}{KEYS_PATH}", done="event-key-rotated")

    async def withdraw(self, request: ConsoleRequest) -> ApiResponse:
        request.require_all("the keys sign the events of all clients")
        await self._rotation.withdraw(request.path_text("kid"), request.actor)
        return request.redirect(f"{ROOT}{KEYS_PATH}", done="event-key-withdrawn")

    async def find(self, request: ConsoleRequest, text: str) -> list[Hit]:
        if len(text) > JTI_CHARACTERS_MAX:
            return []
        try:
            event = await request.read(listing.show, text, request.allowed)
        except NotFound:
            return []
        return [Hit("Event", event.jti, f"{ROOT}{PATH}/{event.jti}", f"for {event.client_id}, {event.status}")]

    async def _resolve(self, request: ConsoleRequest, resolution: Resolution, done: str) -> ApiResponse:
        jti = request.path_text("jti")
        await request.write(errored_events.resolve, resolution, jti, request.actor, request.allowed)
        return request.redirect(f"{ROOT}{PATH}/{jti}", done=done)

    async def _form(
        self, request: ConsoleRequest, given: dict[str, str], problem: RestanteError | None = None
    ) -> ApiResponse:
        found = await request.read(clients.names, CLIENTS_MAX, request.allowed)
        choices = [(each.client_id, f"{each.name} ({each.client_id})") for each in found if not each.is_removed]
        everyone = [(ALL_SUBSCRIBERS, "all subscribers of its types")] if request.allowed.are_all else []
        return request.render(
            "events/new.html",
            section="events",
            title="Publish an event",
            http_status=200 if problem is None else problem.status,
            recipients=[("", "choose a client"), *everyone, *choices],
            given=given,
            problem="" if problem is None else problem.message,
        )


def _filters(request: ConsoleRequest) -> EventFilter:
    status = request.query_text("status") or None
    if status is not None and status not in STATUSES:
        raise BadInput("status", f"one of {', '.join(STATUSES)}")
    given = {name: (request.query_text(name) or "").strip() or None for name in ("client", "txn", "err")}
    return EventFilter(given["client"], status, given["txn"], err=given["err"])


def _api_filter(filters: EventFilter) -> dict[str, str]:
    """The filter as the parameters of the export."""
    names = ("client_id", "status", "txn", "err")
    return {name: value for name in names if (value := getattr(filters, name)) is not None}


def _bulk_path(filters: EventFilter) -> str:
    """The page that acts on all events that match. Each action chooses the state of the events by itself."""
    given = [(f"filter.{name}", value) for name, value in _api_filter(filters).items() if name != "status"]
    return f"{ROOT}/jobs/new?{urlencode([('target', 'events'), *given])}"


def _body(form: Form) -> PublishBody:
    recipient = form.required("recipient", 200)
    target = {"all_subscribers": True} if recipient == ALL_SUBSCRIBERS else {"client_id": recipient}
    optional = {name: text for name in ("sub", "txn") if (text := form.text(name, 2000).strip())}
    return decode_json(msgspec.json.encode({"events": form.json("events"), **target, **optional}), PublishBody)


def _span(key: EventKeyView, now_ms: int) -> tuple[float, float, float]:
    """When the key is published, when it signs, and until when it is published: as places of the calendar, which
    shows CALENDAR_DAYS before and after today, from 0 to 1."""

    def place(at: str) -> float:
        share = (parse_iso(at, "time") - now_ms) / (CALENDAR_DAYS * 86_400_000)
        return min(1.0, max(0.0, (share + 1) / 2))

    end = key.withdrawn_at or key.published_until
    return place(key.created_at), place(key.signs_from), 1.0 if end is None else place(end)


def _short_type(event_type: str) -> str:
    """The last part of the type's URI."""
    return re.split(r"[:/]", event_type)[-1] or event_type


def _deliveries(event: EventDetail) -> list[tuple[str, str, str | None, str]]:
    """The first delivery by a poll, and every failed push, by time. A successful push acknowledges the event."""
    found: list[tuple[str, str, str | None, str]] = [
        ("warn", "Push failed", at, event.push_problem or "" if at == event.failed_pushes[-1] else "")
        for at in event.failed_pushes
    ]
    if event.first_polled_at is not None:
        found.append(("busy", "Delivered by a poll for the first time", event.first_polled_at, ""))
    return sorted(found, key=lambda step: step[2] or "")


def _steps(event: EventDetail) -> list[tuple[str, str, str | None, str]]:
    """The life of the event: kind of mark, what happened, when, and more about it."""
    steps: list[tuple[str, str, str | None, str]] = [("ok", "Published", event.created_at, f"transaction {event.txn}")]
    steps.append(("ok", "Signed", None, f"key {event.kid}") if event.kid else ("wait", "Not signed yet", None, ""))
    steps += _deliveries(event)
    if event.errored_at is not None:
        steps.append(("bad", f"Refused by the client: {event.err}", event.errored_at, event.err_description or ""))
    if event.finished_at is not None:
        steps.append(("ok" if event.status == "acknowledged" else "off", event.status, event.finished_at, ""))
    return steps
