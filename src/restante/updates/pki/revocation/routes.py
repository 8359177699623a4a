"""Public routes for revocation lists. Anyone may fetch them: programs that check a certificate have no account here."""

import asyncio
import re

from restante.core.errors import NotFound
from restante.database.database import Database
from restante.identity.grants import Area
from restante.identity.master_key import MasterKey
from restante.updates.pki.revocation import revocation_lists
from restante.updates.pki.revocation.revocation_lists import RevocationList
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, ResponseInfo, Route, RouteGroup

PREFIX = "/crl/{ca_id}/{serial}"
DER_TYPE = "application/pkix-crl"
PEM_TYPE = "application/x-pem-file"
# How long a client may use its copy: a revocation is seen everywhere after so long.
CACHE_SECONDS = 300
_SERIAL = re.compile(r"[0-9a-f]{2,80}")


class RevocationRoutes:
    def __init__(self, database: Database, master_key: MasterKey, valid_hours: int) -> None:
        self._database = database
        self._master_key = master_key
        self._valid_hours = valid_hours
        # One signature at a time: strangers' requests must not occupy every thread.
        self._signing = asyncio.Lock()

    def routes(self) -> list[Route]:
        group = RouteGroup("revocation lists", RESPONSE_FORMAT, prefix=PREFIX, errors=(404,), area=Area.updates)
        der = ResponseInfo(200, bytes, (), DER_TYPE)
        pem = ResponseInfo(200, str, (), PEM_TYPE)
        return [
            group.get("/list.crl", self.der, Access.open, "Fetch the revocation list (CRL) in DER", responses=(der,)),
            group.get("/list.pem", self.pem, Access.open, "Fetch the revocation list (CRL) in PEM", responses=(pem,)),
        ]

    async def der(self, request: ApiRequest) -> ApiResponse:
        """The list of certificates that the authority has revoked and that have not ended."""
        return _response((await self._current(request)).der, DER_TYPE)

    async def pem(self, request: ApiRequest) -> ApiResponse:
        """The same list in PEM."""
        return _response((await self._current(request)).pem, PEM_TYPE)

    async def _current(self, request: ApiRequest) -> RevocationList:
        authority = request.path_id("ca_id"), request.path_text("serial").lower()
        if not _SERIAL.fullmatch(authority[1]):
            raise NotFound("there is no such revocation list")
        found = await self._database.read(revocation_lists.current_or_plan, *authority)
        if isinstance(found, RevocationList):
            return found
        async with self._signing:
            # Another request may have signed it meanwhile.
            plan = await self._database.read(revocation_lists.current_or_plan, *authority)
            if isinstance(plan, RevocationList):
                return plan
            made = await asyncio.to_thread(revocation_lists.sign, plan, self._master_key, self._valid_hours)
            return await self._database.write(revocation_lists.store, plan, made)


def _response(body: bytes, media_type: str) -> ApiResponse:
    headers = (
        (b"content-type", media_type.encode()),
        (b"cache-control", b"public, max-age=%d" % CACHE_SECONDS),
    )
    return ApiResponse(200, headers, body)
