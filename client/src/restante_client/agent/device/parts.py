"""What the parts of the worker share: the configuration, the connections, the staged objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Union

from restante_client import BlockingDeviceClient
from restante_client.agent.device import materials
from restante_client.agent.device.config import DeviceConfig
from restante_client.agent.device.install import plan
from restante_client.agent.device.install.applier import Applier
from restante_client.agent.device.staging import Staging
from restante_client.agent.device.store import AgentStore
from restante_client.agent.logs import Log
from restante_client.device.models import InstallItem
from restante_client.errors import NotFound, VerificationFailed

CONFIG, CERT, CA, CERT_ITEMS, CA_ITEMS = "config", "cert", "ca", "cert-items", "ca-items"
# Nothing waits longer than this at a time. A later due time means that the clock was set back.
WAIT_SECONDS_MAX = 3600.0


@dataclass
class Parts:
    config: DeviceConfig
    device: BlockingDeviceClient
    store: AgentStore
    staging: Staging
    applier: Applier
    log: Log
    failures: int = 0

    def stage(self, kind: str, id: int) -> bool:
        """Fetch an object and make its files the current ones. False: they already are."""
        request: Union[materials.CertificateRequest, materials.AuthorityRequest]
        if kind == CERT:
            bundle = self.device.sealed_bundle(id)
            device_key = self.device.store.private_key_bytes
            request = materials.CertificateRequest(id, bundle, device_key, self._pfx_password())
        else:
            request = materials.AuthorityRequest(id, self.device.authority_bundle(id))
        made = materials.in_child(request)
        kept = self.config.certificates.releases_kept if kind == CERT else 1
        if not self.staging.stage(kind, id, made, kept=kept):
            return False
        self.log.info("staged", kind=kind, id=id, serial=made.serial, fingerprint=made.fingerprint)
        return True

    def _pfx_password(self) -> Optional[bytes]:
        file = self.config.certificates.pfx_password_file
        return Path(file).read_bytes().strip() if file else None

    def stage_missing(self, items: Sequence[InstallItem]) -> dict[str, str]:
        """Stage the objects that items need. Returns, for ids of items, why an object cannot be had."""
        missing: dict[str, str] = {}
        for kind, id in plan.objects_of(items):
            if kind not in plan.OB_TYPES or self.staging.is_staged(kind, id):
                continue
            problem = ""
            try:
                self.stage(kind, id)
            except NotFound:
                problem = f"{kind} {id} is not assigned to this device"
            except VerificationFailed as error:
                problem = f"{kind} {id}: {error}"
            if problem:
                missing.update({item.id: problem for item in items if plan.object_of(item) == (kind, id)})
        return missing
