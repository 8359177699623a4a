"""What the server sends to a device, and what a device sends."""

from __future__ import annotations

from typing import Any, Optional, Union

import msgspec

NOTIFY_SCHEMA = "certctrl.device.notify.v1"


class Signal(msgspec.Struct, frozen=True):
    """Something changed: `type` says what, `ref` to which object, `ts_ms` when."""

    type: str
    ts_ms: int
    ref: dict[str, Any]


class DeviceCode(msgspec.Struct, frozen=True):
    """What a person needs for approving a device. `device_code` is secret and not shown."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str = ""
    interval: float = 5
    expires_in: float = 900

    def __repr__(self) -> str:
        return f"DeviceCode(user_code={self.user_code!r}, verification_uri={self.verification_uri!r})"


class Session(msgspec.Struct, frozen=True):
    """The tokens of a device."""

    access_token: str
    refresh_token: str
    expires_in: float = 3600

    def __repr__(self) -> str:
        return "Session(…)"


class DeviceDescription(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the device describes itself at its registration."""

    name: str = ""
    platform: str = ""
    model: str = ""
    app_version: str = ""


def without_nulls(item: dict[str, Any]) -> dict[str, Any]:
    """The fields that an item has. Operators may send null for a field that is not set."""
    return {name: value for name, value in item.items() if value is not None}


class InstallItem(msgspec.Struct, frozen=True):
    """One step of an install config."""

    id: str
    type: str
    enabled: bool = True
    continue_on_error: bool = False
    depends_on: list[str] = []
    tags: list[str] = []
    ob_type: Optional[str] = None
    ob_id: Optional[int] = None
    ob_name: Optional[str] = None
    sources: list[str] = msgspec.field(name="from", default_factory=list)
    targets: list[str] = msgspec.field(name="to", default_factory=list)
    cmd: Union[str, list[str], None] = None
    cmd_argv: Optional[list[str]] = None
    timeout_ms: Optional[int] = None
    run_as: Optional[str] = None
    env: dict[str, str] = {}
    verify: dict[str, Any] = {}


class InstallConfig(msgspec.Struct, frozen=True):
    """What to install. `installs_hash` is equal to the signal's `installs_hash_b64`."""

    id: int
    version: int
    installs: list[InstallItem]
    installs_json: str = ""
    installs_hash: Optional[str] = None
    after_update_script: Optional[str] = None


class CertificateBundle(msgspec.Struct, frozen=True):
    """A certificate with its private key, encrypted for one device."""

    serial: str
    domain_name: str
    certificate_pem: str
    chain_pem: str
    fullchain_pem: str
    wrap_alg: str
    enc_scheme: str
    device_keyfp_b64: str
    enc_data_key_b64: str
    enc_privkey_b64: str
    privkey_nonce_b64: str
    privkey_tag_b64: str


class AuthorityBundle(msgspec.Struct, frozen=True):
    """A certificate authority that the device must trust."""

    id: int
    name: str
    serial_number: str
    ca_certificate_pem: str
    ca_certificate_der_b64: str
