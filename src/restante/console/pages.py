"""The guard in front of every page, and what a page's handler gets: the person, what they may see, the form.

    request ─▶ session? ── no ──▶ sign-in page, then back
       │ yes
       ▼
    grants include the page? ── no ──▶ 404: it does not exist for this person (an action: 403)
       │ yes
       ▼
    a form: from a page of this origin and this session? final: password given lately? ── no ──▶ 403, password page
       │ yes
       ▼
    handler ─▶ page, or redirect after an action

This is the only place that decides whether a person may open a page. Handlers decide about single resources with
`ConsoleRequest.require`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote, urlencode

from starlette.requests import Request

from restante.console.forms.forms import Form, read_form
from restante.console.live import Live
from restante.console.navigation import ROOT, sections_for
from restante.console.rendering.rendering import Rendering
from restante.console.rendering.texts import done_text
from restante.console.scopes import allowed_in
from restante.core.errors import NotAllowed, NotAuthenticated, NotFound, RestanteError, RetryLater
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.external.external_database import ExternalDatabase
from restante.database.lists.long_counts import Counting
from restante.database.paging import PageRequest
from restante.identity import access_audit
from restante.identity.administration import Administrator
from restante.identity.callers import Person
from restante.identity.grants import ALL_IDS, AllowedIds, Area, Role
from restante.identity.people import sessions
from restante.identity.people.sign_in import SignIn
from restante.web.access import AccessControl
from restante.web.paging import page_request_of
from restante.web.request import ApiRequest
from restante.web.response import NO_STORE, ApiResponse
from restante.web.routes import Access, ResponseFormat, Route

P = ParamSpec("P")
T = TypeVar("T")

TAG = "console"
SIGN_IN_PATH = f"{ROOT}/sign-in"
PASSWORD_FIELD = "confirm_password"  # noqa: S105 — the name of a field
TOKEN_FIELD = "form_token"  # noqa: S105 — the name of a field
ACCOUNT_FIELD = "confirm_account"  # read by password managers only
PASSWORD_CHARACTERS_MAX = 1024
# How long a page waits for a count that is not known. Then it is shown without it.
COUNT_WAIT_SECONDS = 0.25
THEME_COOKIE = "restante_theme"
THEMES = ("light", "dark")
_LOCAL_PATH = re.compile(r"/console(/[\w./~%@:+,=-]*)?(\?[\w./~%@:+,=&-]*)?", re.ASCII)

# Pages load, run and send nothing from or to another origin, and nothing that is written into the page itself.
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = (
    (b"content-type", b"text/html; charset=utf-8"),
    NO_STORE,
    (b"content-security-policy", _POLICY),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


@dataclass(frozen=True, slots=True)
class Needs:
    """The role that a page needs, in an area. Without an area: the role for everything."""

    area: Area | None
    role: Role = Role.viewer
    # Instead: the role admin in any scope.
    is_any_admin: bool = False


# What a page without `needs` may show of users, sites and clients.
NOTHING = AllowedIds(frozenset())
ANY_ADMIN = Needs(None, Role.admin, is_any_admin=True)
ALL_ADMIN = Needs(None, Role.admin)


@dataclass(frozen=True, slots=True)
class ConsoleParts:
    """What every page is built with."""

    database: Database
    access_control: AccessControl
    sign_in: SignIn
    rendering: Rendering
    live: Live
    # How long the password counts before an action that cannot be undone.
    confirm_seconds: int


class ConsoleRequest(ApiRequest):
    """A request of a signed-in person. `allowed`: the users, sites or clients that the page may show or change."""

    __slots__ = ("form", "parts")

    caller: Person

    def __init__(self, http: Request, person: Person, allowed: AllowedIds, parts: ConsoleParts, form: Form) -> None:
        super().__init__(http, person, allowed, parts.access_control.senders)
        self.parts = parts
        self.form = form

    async def read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.parts.database.read(work, *args, **kwargs)

    async def count(
        self,
        topic: str,
        filters: Hashable,
        make: Callable[[], Counting[T]],
        database: Database | ExternalDatabase | None = None,
    ) -> T | None:
        """Count what the filter finds, a little old if that takes long; None if it is not known yet. The live pages of
        the topic are read again when a newer count is ready."""
        on_change = partial(self.parts.live.mark, topic)
        counts = database or self.parts.database
        return await counts.recent_count((filters, self.allowed), make, on_change, COUNT_WAIT_SECONDS)

    async def write(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an action that records by itself who did it."""
        return await self.parts.database.write(work, *args, **kwargs)

    async def act(
        self,
        event: str,
        detail: dict[str, Any],
        work: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run an action that does not record who did it, and record it in the same transaction."""

        def recorded(conn: Connection) -> T:
            result = work(conn, *args, **kwargs)
            access_audit.record_other(conn, self.actor, event, detail)
            return result

        return await self.parts.database.write(recorded)

    def require(self, owner_id: int | str) -> None:
        """Refuse what belongs to a user, site or client outside the person's grants, as if it did not exist."""
        if owner_id not in self.allowed:
            raise NotFound()

    def narrowed_to(self, needs: Needs | None) -> "ConsoleRequest | None":
        """The same request, limited to what the person may see under `needs`; None if that is nothing."""
        allowed = _allowed(self.person, needs)
        return None if allowed is None else ConsoleRequest(self.http, self.person, allowed, self.parts, self.form)

    def may(self, area: Area | None, role: Role, owner_id: int | str | None = None) -> bool:
        """Whether the person has the role for this user, site or client; without one, for any. Decides about buttons:
        the guard decides about actions."""
        allowed = allowed_in(self.person, area, role) if area is not None else self.grants.allowed(None, role)
        return allowed is not None and (owner_id is None or owner_id in allowed)

    @property
    def administrator(self) -> Administrator:
        return Administrator(self.actor, self.grants, self.person.user_id)

    def page(self, limit: int = 50) -> PageRequest:
        return PageRequest(min(limit, page_request_of(self).limit), page_request_of(self).after)

    def page_link(self, **changed: Any) -> str:
        """The address of this page with some parameters changed; None removes one. Paging begins anew."""
        given = {name: value for name, value in self.http.query_params.items() if name not in ("after", "done")}
        query = {name: value for name, value in {**given, **changed}.items() if value not in (None, "")}
        return f"{self.http.url.path}?{urlencode(query)}" if query else self.http.url.path

    def render(
        self,
        template: str,
        *,
        section: str,
        title: str,
        topics: Sequence[str] = (),
        http_status: int = 200,
        **values: Any,
    ) -> ApiResponse:
        """The page. `topics`: what its live parts depend on."""
        shared = {
            "sections": sections_for(self.person),
            "person": self.person,
            "done": done_text(self.http.query_params.get("done")),
            "form_token": sessions.form_token(self.parts.access_control.cookie.read(self.http) or ""),
            "topics": ",".join(topics),
            "position": self.parts.live.position,
            "is_first_page": "after" not in self.http.query_params,
        }
        page = _render(self.parts, self.http, template, **{**shared, **values, "section": section, "title": title})
        return ApiResponse(http_status, HEADERS, page.encode())

    async def ask_password(self, what: str = "", *, is_final: bool = True) -> ApiResponse | None:
        """The page with the form for the password before an action; None if the person gave it lately, or just now. The
        page names the action (`what`), says whether it is final, and posts the same form again."""
        parts, token = self.parts, self.parts.access_control.cookie.read(self.http) or ""
        password = self.form.text(PASSWORD_FIELD, PASSWORD_CHARACTERS_MAX)
        problem = ""
        if password:
            try:
                await parts.sign_in.confirm(self.person.email, password, self.address, token)
                return None
            except NotAuthenticated:
                problem = "The password is wrong."
        elif await self.read(sessions.is_confirmed, token, parts.confirm_seconds):
            return None
        own = (PASSWORD_FIELD, TOKEN_FIELD, ACCOUNT_FIELD)
        return self.render(
            "confirm.html",
            section="",
            title="Confirm with your password",
            http_status=401 if problem else 200,
            fields=[pair for pair in self.form.fields if pair[0] not in own],
            problem=problem,
            what=what,
            is_final=is_final,
            action=self.http.url.path,
        )

    def redirect(self, path: str, done: str | None = None) -> ApiResponse:
        """Where the browser goes after an action. `done` names the notice that it shows there."""
        joint = "&" if "?" in path else "?"
        return redirect(path if done is None else f"{path}{joint}{urlencode({'done': done})}")


Handler = Callable[[ConsoleRequest], Awaitable[ApiResponse]]


@dataclass(frozen=True, slots=True)
class Hit:
    """Something that a search found."""

    kind: str
    name: str
    path: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Attention:
    """Something on the overview that needs a look: how many of what, since when, and where to look.

    `count` is None while the things are being counted.
    """

    kind: str
    what: str
    path: str
    count: int | None
    since_ms: int | None = None
    hint: str = ""


class PageSet(ABC):
    """The pages of one subject. `needs`: who gets what `find` and `attention` return."""

    needs: Needs | None = None

    @abstractmethod
    def routes(self, pages: "Pages") -> list[Route]: ...

    async def find(self, _request: ConsoleRequest, _text: str) -> list[Hit]:
        """What has this id or name, and is open to the person."""
        return []

    async def attention(self, _request: ConsoleRequest) -> list[Attention]:
        """What needs the person's attention, the worst first."""
        return []


class Pages:
    """Makes routes whose handlers run behind the guard."""

    def __init__(self, parts: ConsoleParts) -> None:
        self.parts = parts
        self._format = ConsoleFormat(parts.rendering)

    def get(self, path: str, handler: Handler, needs: Needs | None) -> Route:
        """A page. Without `needs`, for every signed-in person."""

        async def guarded(request: ApiRequest) -> ApiResponse:
            person = await self.parts.access_control.person_of(request.http)
            if person is None:
                return _to_sign_in(request.http)
            allowed = _allowed(person, needs)
            opened = ConsoleRequest(request.http, person, allowed or NOTHING, self.parts, Form([]))
            if allowed is None:
                return _error_page(opened, NotFound("There is no such page, or your grants do not include it."))
            try:
                return await handler(opened)
            except RestanteError as error:
                return _error_page(opened, error)

        return Route("GET", ROOT + path, guarded, Access.open, "", self._format, TAG)

    def post(
        self,
        path: str,
        handler: Handler,
        needs: Needs | None,
        *,
        is_final: bool = False,
        asks_password: bool = False,
        what: str = "",
    ) -> Route:
        """An action. `is_final`: it cannot be undone. Then, and with `asks_password`, the person gives the password
        again; `what` names the action on that page."""

        async def guarded(request: ApiRequest) -> ApiResponse:
            self.parts.access_control.refuse_foreign_origin(request.http)
            person = await self.parts.access_control.person_of(request.http)
            if person is None:
                raise NotAuthenticated("your session has ended; open the page again and sign in")
            form = await read_form(request.http)
            self._check_token(request.http, form)
            allowed = _allowed(person, needs)
            opened = ConsoleRequest(request.http, person, allowed or NOTHING, self.parts, form)
            try:
                if allowed is None:
                    raise NotAllowed("your grants do not include this")
                if is_final or asks_password:
                    asked = await opened.ask_password(what, is_final=is_final)
                    if asked is not None:
                        return asked
                return await handler(opened)
            except RestanteError as error:
                return _error_page(opened, error)

        return Route("POST", ROOT + path, guarded, Access.open, "", self._format, TAG)

    def open(self, method: str, path: str, handler: Callable[[ApiRequest], Awaitable[ApiResponse]]) -> Route:
        """A route without a guard: for people who are not signed in yet, and for assets."""
        return Route(method, path, handler, Access.open, "", self._format, TAG)

    def _check_token(self, request: Request, form: Form) -> None:
        token = self.parts.access_control.cookie.read(request) or ""
        if not sessions.is_form_token(token, form.text(TOKEN_FIELD, 200)):
            raise NotAllowed("this form does not belong to your session; open the page again")


class ConsoleFormat(ResponseFormat):
    """Writes errors as pages that need no session; successes are pages already."""

    def __init__(self, rendering: Rendering) -> None:
        self._rendering = rendering

    def success(self, value: Any, status: int = 200) -> ApiResponse:
        return ApiResponse(status, HEADERS, str(value).encode())

    def error(self, error: RestanteError) -> ApiResponse:
        page = self._rendering.render("problem.html", title="That did not work", text=error.message, theme="")
        return _with_retry(ApiResponse(error.status, HEADERS, page.encode()), error)


def redirect(path: str, *headers: tuple[bytes, bytes]) -> ApiResponse:
    return ApiResponse(303, (NO_STORE, (b"location", path.encode()), *headers))


def local_path(path: str | None) -> str:
    """The path, if it is one of the console; else the overview. A redirect never leaves this server."""
    return path if path is not None and _LOCAL_PATH.fullmatch(path) and "//" not in path else ROOT


def plain_page(parts: ConsoleParts, http: Request, template: str, status: int = 200, **values: Any) -> ApiResponse:
    """A page without navigation, for people who are not signed in."""
    return ApiResponse(status, HEADERS, _render(parts, http, template, **values).encode())


def _allowed(person: Person, needs: Needs | None) -> AllowedIds | None:
    if needs is None:
        return NOTHING
    if needs.is_any_admin:
        return ALL_IDS if person.grants.role is Role.admin else None
    if needs.area is None:
        return person.grants.allowed(None, needs.role)
    return allowed_in(person, needs.area, needs.role)


def _to_sign_in(http: Request) -> ApiResponse:
    query = f"?{http.url.query}" if http.url.query else ""
    return redirect(f"{SIGN_IN_PATH}?next={quote(http.url.path + query, safe='')}")


def _error_page(request: ConsoleRequest, error: RestanteError) -> ApiResponse:
    titles = {403: "You may not do this", 404: "Not found", 409: "That is not possible now"}
    title = titles.get(error.status, "That did not work")
    text = error.message[:1].upper() + error.message[1:]
    response = request.render("error.html", section="", title=title, text=text, http_status=error.status)
    return _with_retry(response, error)


def _with_retry(response: ApiResponse, error: RestanteError) -> ApiResponse:
    if isinstance(error, RetryLater):
        return response.with_headers((b"retry-after", b"%d" % error.retry_after_seconds))
    return response


def _render(parts: ConsoleParts, http: Request, template: str, **values: Any) -> str:
    theme = http.cookies.get(THEME_COOKIE, "")
    return parts.rendering.render(template, theme=theme if theme in THEMES else "", **values)
