"""Certificates and authorities by when they end: when each is renewed by itself, what failed, actions by hand."""

import asyncio

from restante.console.live import UPDATES
from restante.console.navigation import ROOT
from restante.console.pages import Attention, ConsoleRequest, Hit, Needs, Pages, PageSet
from restante.core.errors import BadInput, NotFound
from restante.core.iso_time import parse_iso
from restante.database.paging import PageRequest
from restante.delivery.log.signals import Emit
from restante.identity.grants import Area, Role
from restante.identity.master_key import MasterKey
from restante.updates.pki import certificates, issuing
from restante.updates.pki.issuing import IssueRules
from restante.updates.pki.renewal import expiry
from restante.updates.pki.renewal.expiry import RENEWALS, ExpiringCertificate, ExpiryFilter
from restante.updates.pki.revocation.issued_serials import REASONS
from restante.web.response import ApiResponse
from restante.web.routes import Route

PATH = "/certificates"
AUTHORITIES_SHOWN = 10
DAY_MS = 86_400_000
# Within this time an end needs attention: a certificate that is not renewed by itself, and an authority.
CERTIFICATE_DAYS, AUTHORITY_DAYS = 30, 90
_READ, _OPERATE = Needs(Area.updates), Needs(Area.updates, Role.operator)


class CertificatePages(PageSet):
    needs = _READ

    def __init__(self, emit: Emit, master_key: MasterKey, rules: IssueRules) -> None:
        self._emit = emit
        self._master_key = master_key
        self._rules = rules

    def routes(self, pages: Pages) -> list[Route]:
        one = PATH + "/{user_id}/{certificate_id}"
        return [
            pages.get(PATH, self.show_list, _READ),
            pages.get(one, self.show, _READ),
            pages.post(one + "/renew", self.renew, _OPERATE),
            pages.post(one + "/auto-renew", self.set_auto_renew, _OPERATE),
            pages.post(one + "/revoke", self.revoke, _OPERATE, is_final=True, what="revoke the certificate"),
        ]

    async def show_list(self, request: ConsoleRequest) -> ApiResponse:
        given, days = request.query_text("renewal") or None, request.query_text("days") or None
        renewal = next((each for each in RENEWALS if each == given), None)
        if given is not None and renewal is None:
            raise BadInput("renewal", f"one of {', '.join(RENEWALS)}")
        if days not in (None, str(CERTIFICATE_DAYS)):
            raise BadInput("days", str(CERTIFICATE_DAYS))
        now_ms = request.parts.rendering.now_ms()
        before = None if days is None else now_ms + CERTIFICATE_DAYS * DAY_MS
        wanted = ExpiryFilter(before=before, renewal=renewal)
        first = PageRequest(AUTHORITIES_SHOWN, 0)
        return request.render(
            "certificates/list.html",
            section="certificates",
            title="Certificates",
            topics=(UPDATES,),
            page=await request.read(expiry.certificates, wanted, request.page(), request.allowed),
            authorities=(await request.read(expiry.authorities, ExpiryFilter(), first, request.allowed)).items,
            counts=await self._counts(request),
            soon_ms=now_ms + CERTIFICATE_DAYS * DAY_MS,
            authority_soon_ms=now_ms + AUTHORITY_DAYS * DAY_MS,
            now_ms=now_ms,
            renewal=renewal,
            days=days,
            ms=lambda text: parse_iso(text, "time"),
            certificate_days=CERTIFICATE_DAYS,
            percent=self._rules.renew_at_percent,
            address=request.page_link,
            path=_path,
        )

    async def show(self, request: ConsoleRequest) -> ApiResponse:
        user_id, certificate_id = _ids(request)
        certificate = await request.read(certificates.get, user_id, certificate_id)
        ending = await request.read(expiry.of_certificate, certificate_id)
        return request.render(
            "certificates/certificate.html",
            section="certificates",
            title=certificate.domain_name,
            topics=(UPDATES,),
            certificate=certificate,
            ending=ending,
            path=_path(user_id, certificate_id),
            reasons=[(each, each.replace("_", " ")) for each in REASONS],
            may_operate=request.may(Area.updates, Role.operator, user_id),
        )

    async def renew(self, request: ConsoleRequest) -> ApiResponse:
        user_id, certificate_id = _ids(request)
        plan = await request.read(issuing.plan, user_id, certificate_id, self._rules)
        issued = await asyncio.to_thread(issuing.make_certificate, plan, self._master_key)
        await request.act("certificate.renewed", {"cert_id": certificate_id}, issuing.store, self._emit, plan, issued)
        return request.redirect(_path(user_id, certificate_id), done="certificate-renewed")

    async def set_auto_renew(self, request: ConsoleRequest) -> ApiResponse:
        user_id, certificate_id = _ids(request)
        is_on, percent = request.form.text("auto_renew") == "true", self._rules.renew_at_percent
        detail = {"cert_id": certificate_id, "auto_renew": is_on}
        await request.act(
            "certificate.updated", detail, certificates.set_auto_renew, user_id, certificate_id, is_on, percent
        )
        done = "certificate-renewal-on" if is_on else "certificate-renewal-off"
        return request.redirect(_path(user_id, certificate_id), done=done)

    async def revoke(self, request: ConsoleRequest) -> ApiResponse:
        user_id, certificate_id = _ids(request)
        reason = next((each for each in REASONS if each == request.form.text("reason")), None)
        if reason is None:
            raise BadInput("reason", f"one of {', '.join(REASONS)}")
        await request.write(certificates.revoke, self._emit, user_id, certificate_id, reason, request.actor)
        return request.redirect(_path(user_id, certificate_id), done="certificate-revoked")

    async def find(self, request: ConsoleRequest, text: str) -> list[Hit]:
        if "\0" in text:
            return []
        page = await request.read(expiry.certificates, ExpiryFilter(name=text), PageRequest(5, 0), request.allowed)
        return [_hit(each) for each in page.items]

    async def attention(self, request: ConsoleRequest) -> list[Attention]:
        counts = await self._counts(request)
        path, ending = f"{ROOT}{PATH}", f"within {CERTIFICATE_DAYS} days, not renewed by themselves"
        found = [
            Attention("failed", "Renewals of certificates failed", f"{path}?renewal=failed", counts.failed_renewals),
            Attention(
                "expiring", "Certificates end soon", f"{path}?renewal=off&days={CERTIFICATE_DAYS}",
                counts.certificates, hint=ending,
            ),
            Attention(
                "expiring", "Certificate authorities end soon", f"{path}#authorities", counts.authorities,
                hint=f"within {AUTHORITY_DAYS} days; replace them in time",
            ),
        ]  # fmt: skip
        return [each for each in found if each.count]

    async def _counts(self, request: ConsoleRequest) -> expiry.ExpiryCounts:
        now_ms = request.parts.rendering.now_ms()
        ends = now_ms + CERTIFICATE_DAYS * DAY_MS, now_ms + AUTHORITY_DAYS * DAY_MS
        return await request.read(expiry.counts, *ends, request.allowed)


def _hit(each: ExpiringCertificate) -> Hit:
    path = _path(each.user_id, each.certificate_id)
    return Hit("Certificate", each.domain_name, path, f"ends {each.not_after[:10]}")


def _ids(request: ConsoleRequest) -> tuple[int, int]:
    """The user and the certificate of the path; raises NotFound for a user whose resources are not open."""
    user_id, certificate_id = request.path_id("user_id"), request.path_id("certificate_id")
    if user_id not in request.allowed:
        raise NotFound("There is no such certificate.")
    return user_id, certificate_id


def _path(user_id: int, certificate_id: int) -> str:
    return f"{ROOT}{PATH}/{user_id}/{certificate_id}"
