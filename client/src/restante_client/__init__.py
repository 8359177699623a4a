"""The client side of Restante, for asyncio and for blocking programs.

`DeviceClient` polls device updates, `CollectorClient` carries out edge commands, `EventReceiver` stores verified event
tokens, `OperatorClient` calls the operator API. Each has a blocking twin with the same methods.

Each name is imported at its first use, so that a device does not load the code of collectors and receivers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from restante_client.collector.client import BlockingCollectorClient, CollectorClient, CollectorOptions
    from restante_client.collector.models import Command, Result
    from restante_client.device.bundles import OpenedBundle, open_bundle
    from restante_client.device.client import BlockingDeviceClient, DeviceClient, DeviceOptions, PollResult
    from restante_client.device.models import (
        AuthorityBundle,
        CertificateBundle,
        DeviceCode,
        DeviceDescription,
        InstallConfig,
        InstallItem,
        Signal,
    )
    from restante_client.events.client import BlockingEventReceiver, Event, EventReceiver, ReceiverOptions
    from restante_client.events.credentials import ClientSecret, PrivateKeyJwt, TlsCertificate
    from restante_client.operator.client import BlockingOperatorClient, OperatorClient

__all__ = [
    "AuthorityBundle",
    "BlockingCollectorClient",
    "BlockingDeviceClient",
    "BlockingEventReceiver",
    "BlockingOperatorClient",
    "CertificateBundle",
    "ClientSecret",
    "CollectorClient",
    "CollectorOptions",
    "Command",
    "DeviceClient",
    "DeviceCode",
    "DeviceDescription",
    "DeviceOptions",
    "Event",
    "EventReceiver",
    "InstallConfig",
    "InstallItem",
    "OpenedBundle",
    "OperatorClient",
    "PollResult",
    "PrivateKeyJwt",
    "ReceiverOptions",
    "Result",
    "Signal",
    "TlsCertificate",
    "open_bundle",
]

_MODULES = {
    "restante_client.collector.client": ("BlockingCollectorClient", "CollectorClient", "CollectorOptions"),
    "restante_client.collector.models": ("Command", "Result"),
    "restante_client.device.bundles": ("OpenedBundle", "open_bundle"),
    "restante_client.device.client": ("BlockingDeviceClient", "DeviceClient", "DeviceOptions", "PollResult"),
    "restante_client.device.models": (
        "AuthorityBundle",
        "CertificateBundle",
        "DeviceCode",
        "DeviceDescription",
        "InstallConfig",
        "InstallItem",
        "Signal",
    ),
    "restante_client.events.client": ("BlockingEventReceiver", "Event", "EventReceiver", "ReceiverOptions"),
    "restante_client.events.credentials": ("ClientSecret", "PrivateKeyJwt", "TlsCertificate"),
    "restante_client.operator.client": ("BlockingOperatorClient", "OperatorClient"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    found = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = found
    return found
