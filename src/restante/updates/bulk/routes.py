"""The operator route for bulk actions on devices."""

from collections.abc import Sequence
from typing import Any, Literal

from restante.database.database import Database
from restante.delivery.log.signals import Emit, EmitAll
from restante.identity.grants import Area
from restante.identity.master_key import MasterKey
from restante.jobs.actions import JobAction
from restante.updates.bulk.config_actions import PatchConfig, PutConfig, RestoreConfig
from restante.updates.bulk.device_actions import (
    AssignAuthority,
    AssignCertificate,
    RevokeDevices,
    SendSignal,
    UnassignCertificate,
)
from restante.updates.bulk.device_target import DeviceTarget, new_rollout_devices
from restante.updates.bulk.renewal import RenewCertificates
from restante.updates.fleet.device_filter import DeviceFilter
from restante.updates.pki.issuing import IssueRules
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.bulk.bulk_requests import BulkHandler, BulkRequest, bulk_options
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Route, RouteGroup

_PUT_EXAMPLE = {
    "action": "put_config",
    "filter": {"tag": "kiosk"},
    "params": {"installs": [{"id": "site", "type": "copy", "from": ["fullchain.pem"], "to": ["/etc/ssl/site.pem"]}]},
    "rate_per_second": 500,
}
_PATCH_EXAMPLE = {
    "action": "patch_config",
    "filter": {"platform": "linux", "config_version": "behind"},
    "params": {"patch": {"installs": {"site": {"enabled": False}}}},
    "dry_run": True,
}


class DevicesBulkRequest(BulkRequest, kw_only=True):
    action: Literal[
        "put_config",
        "patch_config",
        "send_signal",
        "assign_certificate",
        "renew_certificates",
        "assign_ca",
        "revoke",
    ]
    filter: DeviceFilter = DeviceFilter()


def device_job_actions(emit: Emit, emit_all: EmitAll, master_key: MasterKey, rules: IssueRules) -> list[JobAction[Any]]:
    target, rolled_out = DeviceTarget(), new_rollout_devices()
    return [
        PutConfig(target, emit_all),
        PatchConfig(target, emit_all),
        SendSignal(target, emit_all),
        AssignCertificate(target),
        AssignAuthority(target, emit),
        RenewCertificates(target, emit, master_key, rules),
        RevokeDevices(target),
        RestoreConfig(rolled_out, emit_all),
        UnassignCertificate(rolled_out, emit),
    ]


class DeviceBulkRoutes:
    def __init__(self, database: Database, actions: Sequence[JobAction[Any]]) -> None:
        own = [action for action in actions if action.target.name == DeviceTarget.name]
        self._bulk = BulkHandler(database, own, Access.team_operate, RESPONSE_FORMAT)

    def routes(self) -> list[Route]:
        group = RouteGroup("fleet", RESPONSE_FORMAT, area=Area.updates)
        options = bulk_options(_PUT_EXAMPLE, _PATCH_EXAMPLE)
        return [
            group.post(
                "/apiv1/devices/bulk", self.bulk, Access.team_operate, "Act on all devices that match", **options
            )
        ]

    async def bulk(self, request: ApiRequest, body: DevicesBulkRequest) -> ApiResponse:
        """Put or patch install configs, send a signal, assign or renew certificates, assign an authority, revoke."""
        return await self._bulk.handle(request, body.action, body.filter, body)
