"""Routes for what ends when: lists of certificates and of authorities by their end, for teams."""

import time

from restante.core.decoding import DIGITS, INT64_MAX
from restante.core.errors import BadInput
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.identity.grants import Area
from restante.updates.fleet.device_filter import time_ms
from restante.updates.pki.renewal import expiry
from restante.updates.pki.renewal.expiry import RENEWALS, ExpiringAuthorities, ExpiringCertificates, ExpiryFilter
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.paging import LIMIT_DEFAULT, LIMIT_MAX, TIME, check_filters, query_choice, query_prefix
from restante.web.request import ApiRequest
from restante.web.routes import Access, Query, Route, RouteGroup

CERTIFICATES = "/apiv1/certificates"
AUTHORITIES = "/apiv1/cas"

_PAGE = (
    Query("limit", "the most items to return", {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX}),
    Query("after", "the `next` of the previous page", {"type": "string", "pattern": "^[0-9]{1,19}$"}),
)
_COMMON = (
    Query("expiring", "only what ends before this time, or within this long", TIME),
    Query("user_id", "only those of this user", {"type": "integer", "minimum": 1, "maximum": INT64_MAX}),
    Query("name", "only those whose name begins with this", {"type": "string", "minLength": 1}),
)
_RENEWAL = Query(
    "renewal",
    "only certificates whose renewal failed, that are renewed by themselves (`on`), or that are not (`off`)",
    {"type": "string", "enum": list(RENEWALS)},
)
CERTIFICATE_QUERY = (*_COMMON, _RENEWAL, *_PAGE)
AUTHORITY_QUERY = (*_COMMON, *_PAGE)


class ExpiryRoutes:
    def __init__(self, database: Database) -> None:
        self._database = database

    def routes(self) -> list[Route]:
        group = RouteGroup("expiry", RESPONSE_FORMAT, errors=(400,), area=Area.updates)
        read = Access.team_read
        return [
            group.get(CERTIFICATES, self.certificates, read, "List certificates by their end", query=CERTIFICATE_QUERY),
            group.get(AUTHORITIES, self.authorities, read, "List authorities by their end", query=AUTHORITY_QUERY),
        ]

    async def certificates(self, request: ApiRequest) -> ExpiringCertificates:
        """Issued certificates of all users, the first to end first. A page may have fewer items than `limit`, or none,
        although there is a next one."""
        check_filters(request, CERTIFICATE_QUERY)
        renewal = query_choice(request, "renewal", RENEWALS)
        wanted = _filter(request, renewal)
        return await self._database.read(expiry.certificates, wanted, _page(request), request.allowed)

    async def authorities(self, request: ApiRequest) -> ExpiringAuthorities:
        """Active authorities of all users, the first to end first. They are never renewed by themselves."""
        check_filters(request, AUTHORITY_QUERY)
        return await self._database.read(expiry.authorities, _filter(request), _page(request), request.allowed)


def _filter(request: ApiRequest, renewal: str | None = None) -> ExpiryFilter:
    text = request.query_text("expiring")
    before = None if text is None else time_ms(text, "expiring", int(time.time() * 1000), is_future=True)
    user_id = request.query_int("user_id", 0, 1, INT64_MAX) or None
    chosen = next((each for each in RENEWALS if each == renewal), None)
    return ExpiryFilter(before, user_id, query_prefix(request, "name"), chosen)


def _page(request: ApiRequest) -> PageRequest:
    given = request.query_text("after")
    after = "0" if given is None else given
    if not DIGITS.fullmatch(after) or len(after) > 19 or int(after) > INT64_MAX:
        raise BadInput("after", "the `next` of the previous page")
    return PageRequest(request.query_int("limit", LIMIT_DEFAULT, 1, LIMIT_MAX), int(after))
