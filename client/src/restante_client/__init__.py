"""The client side of Restante, for asyncio and for blocking programs.

`DeviceClient` polls device updates, `CollectorClient` carries out edge commands, `EventReceiver` stores verified event
tokens, `OperatorClient` calls the operator API. Each has a blocking twin with the same methods.
"""

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
