"""API keys: their grants, whether they work, and who changed that. A new key is shown once."""

from restante.console.navigation import ROOT
from restante.console.pages import ANY_ADMIN, ConsoleRequest, Hit, Pages, PageSet
from restante.console.views.access.people import CHANGES_SHOWN, ROLES, grant_rows, grants_in
from restante.core.decoding import DIGITS
from restante.core.errors import NotFound, RestanteError
from restante.database.paging import PageRequest
from restante.identity import access_audit, administration
from restante.identity.api_keys import NAME_LENGTH_MAX, ApiKey
from restante.identity.grants import EXPECTED_SCOPE, Role
from restante.updates.devices.routes_apikeys import LIFETIME_SECONDS_MAX
from restante.web.response import ApiResponse
from restante.web.routes import Route

PATH = "/keys"
DAY_SECONDS = 86_400
DAYS_MAX = LIFETIME_SECONDS_MAX // DAY_SECONDS


class KeyPages(PageSet):
    needs = ANY_ADMIN

    def routes(self, pages: Pages) -> list[Route]:
        one = PATH + "/{key_id}"
        return [
            pages.get(PATH, self.show_list, ANY_ADMIN),
            pages.get(PATH + "/new", self.show_form, ANY_ADMIN),
            pages.post(PATH + "/new", self.create, ANY_ADMIN, asks_password=True, what="create an API key"),
            pages.get(one, self.show, ANY_ADMIN),
            pages.post(one + "/grants", self.set_grants, ANY_ADMIN),
            pages.post(one + "/suspend", self.suspend, ANY_ADMIN),
            pages.post(one + "/resume", self.resume, ANY_ADMIN),
            pages.post(one + "/revoke", self.revoke, ANY_ADMIN, is_final=True, what="revoke the key"),
        ]

    async def show_list(self, request: ConsoleRequest) -> ApiResponse:
        page = await request.read(administration.list_keys, request.administrator, request.page())
        return request.render(
            "keys/list.html",
            section="keys",
            title="API keys",
            page=page,
            address=request.page_link,
            status_of=status_of,
        )

    async def show_form(self, request: ConsoleRequest) -> ApiResponse:
        return self._form(request)

    async def create(self, request: ConsoleRequest) -> ApiResponse:
        """The page after this shows the key itself, once."""
        form = request.form
        try:
            name, grants = form.required("name", NAME_LENGTH_MAX), grants_in(form)
            days = form.optional_number("days", 1, DAYS_MAX)
            seconds = None if days is None else days * DAY_SECONDS
            key, token = await request.write(administration.create_key, request.administrator, name, grants, seconds)
        except RestanteError as error:
            return self._form(request, error)
        return await self._page(request, key, token=token)

    async def show(self, request: ConsoleRequest) -> ApiResponse:
        return await self._page(request, await self._key(request))

    async def set_grants(self, request: ConsoleRequest) -> ApiResponse:
        key = await self._key(request)
        try:
            await request.write(administration.set_key_grants, request.administrator, key.id, grants_in(request.form))
        except RestanteError as error:
            return await self._page(request, key, error)
        return request.redirect(_path(key.id), done="key-changed")

    async def suspend(self, request: ConsoleRequest) -> ApiResponse:
        key_id = request.path_id("key_id")
        await request.write(administration.suspend_key, request.administrator, key_id)
        return request.redirect(_path(key_id), done="key-suspended")

    async def resume(self, request: ConsoleRequest) -> ApiResponse:
        key_id = request.path_id("key_id")
        await request.write(administration.resume_key, request.administrator, key_id)
        return request.redirect(_path(key_id), done="key-resumed")

    async def revoke(self, request: ConsoleRequest) -> ApiResponse:
        key_id = request.path_id("key_id")
        await request.write(administration.remove_key, request.administrator, key_id)
        return request.redirect(_path(key_id), done="key-revoked")

    async def find(self, request: ConsoleRequest, text: str) -> list[Hit]:
        if not DIGITS.fullmatch(text) or len(text) > 18:
            return []
        try:
            key = await request.read(administration.key, request.administrator, int(text))
        except NotFound:
            return []
        return [Hit("API key", key.name, _path(key.id), ", ".join(key.grants.as_texts()))]

    async def _key(self, request: ConsoleRequest) -> ApiKey:
        return await request.read(administration.key, request.administrator, request.path_id("key_id"))

    def _form(self, request: ConsoleRequest, problem: RestanteError | None = None) -> ApiResponse:
        return request.render(
            "keys/new.html",
            section="keys",
            title="New API key",
            http_status=200 if problem is None else problem.status,
            name=request.form.text("name"),
            days=request.form.text("days"),
            days_max=DAYS_MAX,
            name_max=NAME_LENGTH_MAX,
            grant_rows=grant_rows(None, request.form if problem else None),
            roles=ROLES,
            expected_scope=EXPECTED_SCOPE,
            problem="" if problem is None else problem.message,
        )

    async def _page(
        self, request: ConsoleRequest, key: ApiKey, problem: RestanteError | None = None, token: str = ""
    ) -> ApiResponse:
        changes = None
        if request.may(None, Role.admin):
            changes = await request.read(access_audit.list_page, None, key.id, PageRequest(CHANGES_SHOWN, 0))
        return request.render(
            "keys/key.html",
            section="keys",
            title=key.name,
            http_status=200 if problem is None else problem.status,
            key=key,
            status=status_of(key, request.parts.rendering.now_ms()),
            token=token,
            path=_path(key.id),
            grant_rows=grant_rows(key.grants, request.form if problem else None),
            roles=ROLES,
            expected_scope=EXPECTED_SCOPE,
            problem="" if problem is None else problem.message,
            changes=None if changes is None else changes.items,
        )


def status_of(key: ApiKey, now_ms: int | None = None) -> str:
    if key.revoked_at is not None:
        return "revoked"
    if key.expires_at is not None and now_ms is not None and key.expires_at <= now_ms:
        return "expired"
    return "active" if key.suspended_at is None else "suspended"


def _path(key_id: int) -> str:
    return f"{ROOT}{PATH}/{key_id}"
