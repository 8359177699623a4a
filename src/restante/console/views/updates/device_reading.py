"""What the pages of a device show, read in one transaction through the functions of device updates."""

from contextlib import suppress
from dataclasses import dataclass

from restante.console.rendering.diffs import DiffLine, diff_lines, json_diff_lines
from restante.core.errors import NotFound
from restante.database.connection import Connection
from restante.database.paging import PageRequest
from restante.delivery.outbox import outbox
from restante.delivery.outbox.outbox import OutboxRow
from restante.identity import tags
from restante.identity.grants import AllowedIds
from restante.identity.people import users
from restante.updates.devices import devices, notifications
from restante.updates.devices.devices import Device
from restante.updates.devices.notifications import Report
from restante.updates.fleet import delivery_state, explanation
from restante.updates.fleet.delivery_state import Remembered, SignalLine
from restante.updates.fleet.explanation import DeviceExplanation
from restante.updates.install import install_configs
from restante.updates.install.install_configs import ConfigVersion, ConfigVersionDetail, InstallConfigView
from restante.updates.pki import assignments, authorities, certificates
from restante.updates.pki.assignments import CertificateAssignment
from restante.updates.pki.authorities import Authority, AuthorityAssignment
from restante.updates.pki.certificates import Certificate

VERSIONS_SHOWN = 10
ROWS_SHOWN = 15
REPORTS_SHOWN = 5
ASSIGNED_SHOWN = 100
CHOICES_MAX = 500


@dataclass(frozen=True, slots=True)
class DeviceDetail:
    """`why`: what the device waits for. `certificate_choices`, `authority_choices`: what can be assigned, for people
    who may."""

    device: Device
    tags: list[str]
    why: DeviceExplanation
    owner: str
    config: InstallConfigView | None
    versions: list[ConfigVersion]
    certificates: list[tuple[CertificateAssignment, Certificate]]
    authorities: list[tuple[AuthorityAssignment, Authority]]
    rows: list[OutboxRow]
    signals: list[SignalLine]
    reports: list[Report]
    certificate_choices: list[Certificate]
    authority_choices: list[Authority]


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A version of a config, and how it differs from another one; `against` 0: there was none."""

    version: ConfigVersionDetail
    against: int
    newest: int
    lines: list[DiffLine]
    script_lines: list[DiffLine]


def detail_of(conn: Connection, device: Device, remembered: Remembered, with_choices: bool) -> DeviceDetail:
    facts = delivery_state.facts_of(conn, device.id, remembered)
    if facts is None:
        raise NotFound("there is no such device")
    owner = users.find_by_id(conn, device.user_id)
    config = _config(conn, device.id)
    own = PageRequest(ASSIGNED_SHOWN, 0)
    held = assignments.list_of_device(conn, device.user_id, device.id, own).items
    trusted = authorities.list_of_device(conn, device.user_id, device.id, own).items
    held_ids, trusted_ids = {each.cert_id for each in held}, {each.ca_id for each in trusted}
    choices = PageRequest(CHOICES_MAX, 0)
    certificate_choices = certificates.list_of_user(conn, device.user_id, choices).items if with_choices else []
    authority_choices = authorities.list_of_user(conn, device.user_id, choices).items if with_choices else []
    return DeviceDetail(
        device=device,
        tags=tags.tags_of(conn, "device", device.id),
        why=explanation.explain(conn, device.id, facts),
        owner="" if owner is None else owner.email,
        config=config,
        versions=_versions(conn, device, 0 if config is None else config.version),
        certificates=[(each, certificates.get(conn, device.user_id, each.cert_id)) for each in held],
        authorities=[(each, authorities.get(conn, device.user_id, each.ca_id)) for each in trusted],
        rows=outbox.list_rows(conn, None, device.id, ROWS_SHOWN),
        signals=delivery_state.signal_lines(conn, device.id, facts, PageRequest(ROWS_SHOWN, 0)).items,
        reports=notifications.list_page(conn, device.id, PageRequest(REPORTS_SHOWN, 0)).items,
        certificate_choices=[
            each for each in certificate_choices if each.status != "revoked" and each.id not in held_ids
        ],
        authority_choices=[
            each for each in authority_choices if each.status != "revoked" and each.id not in trusted_ids
        ],
    )


def config_change(conn: Connection, user_id: int, device_id: int, version: int, against: int) -> ConfigChange:
    after = install_configs.version_detail(conn, user_id, device_id, version)
    before = install_configs.version_detail(conn, user_id, device_id, against) if against else None
    newest = install_configs.current(conn, device_id).version
    return ConfigChange(
        after,
        against,
        newest,
        json_diff_lines(None if before is None else bytes(before.installs), bytes(after.installs)),
        diff_lines("" if before is None else before.after_update_script or "", after.after_update_script or ""),
    )


def find_device(conn: Connection, device_id: int | None, public_id: str, users_allowed: AllowedIds) -> list[Device]:
    """The device with this id, and those with this public id, of the allowed users."""
    found: list[Device] = []
    if device_id is not None:
        with suppress(NotFound):
            found.append(devices.get(conn, device_id))
    found += devices.list_by_public_id(conn, public_id)
    return [device for device in found if device.user_id in users_allowed]


def _config(conn: Connection, device_id: int) -> InstallConfigView | None:
    try:
        return install_configs.current(conn, device_id)
    except NotFound:
        return None


def _versions(conn: Connection, device: Device, newest: int) -> list[ConfigVersion]:
    """The newest versions, newest first."""
    window = PageRequest(VERSIONS_SHOWN, max(newest - VERSIONS_SHOWN, 0))
    return install_configs.history(conn, device.user_id, device.id, window).items[::-1]
