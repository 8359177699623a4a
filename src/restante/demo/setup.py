"""The state that the demo begins with, made through the operator API by the people of the demo.

Steps run one after another and in a fixed order, so the same world gets the same ids.
"""

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from sqlite3 import connect
from typing import Any

from restante_client import OperatorClient

from restante import outbox
from restante.demo.devices import READER_ITEM, Fleet
from restante.demo.operators import Operators
from restante.demo.receivers import ClientKey
from restante.demo.world import OLD_READER, SimulatedSite, World

DAY_SECONDS = 86_400
# How long the gateways' certificates are valid, in days: the first ones end soon.
CERTIFICATE_DAYS = (2, 6, 11, 60, 90, 90)
SHOP_OUTBOX = "shop.db"
UNKNOWN_DEVICE = 999_999
APPROVAL_SECONDS = DAY_SECONDS


@dataclass(slots=True)
class Made:
    """What the setup has made, by the names that the rest of the demo uses."""

    site_ids: dict[str, int] = field(default_factory=dict)
    collectors: dict[str, tuple[str, str]] = field(default_factory=dict)
    client_keys: dict[str, ClientKey] = field(default_factory=dict)
    waiting_command: str = ""
    denied_command: str = ""
    revoked_device: int = 0


def create_shop_outbox(path: Path) -> None:
    """The outbox of the shops' own application, in its own database."""
    with closing(connect(path)) as database:
        database.executescript(outbox.schema("sqlite"))


def add_shop_signal(path: Path, device_id: int, kind: str, ref: dict[str, Any]) -> None:
    """What the shops' application does in the transaction of a change."""
    with closing(connect(path, timeout=10)) as database, database:
        outbox.enqueue(database, device_id, {"type": kind, "ref": ref})


async def create_people(operators: Operators, world: World) -> None:
    """The first person is there already; that person creates the others."""
    first, *others = world.people
    await operators.sign_in(first)
    admin = operators[first.key]
    for person in others:
        grants: Any = [{"role": role, "scope": scope} for role, scope in person.grants]
        await admin.people.create(email=person.email, password=operators.password, grants=grants)
        await operators.sign_in(person)
    viewer: Any = [{"role": "viewer", "scope": "all"}]
    await admin.keys.create(name="nightly report", grants=viewer, expires_in_seconds=90 * DAY_SECONDS)
    old = await admin.keys.create(name="old dashboard", grants=viewer)
    await admin.keys.suspend(old["id"])


async def create_sites(operators: Operators, world: World, made: Made) -> None:
    admin = operators["admin"]
    for site in world.sites:
        created = await admin.sites.create(name=site.name)
        site_id = created["id"]
        made.site_ids[site.name] = site_id
        for miner_id, name in zip(site.miner_ids, site.miner_names, strict=True):
            await admin.miners.create(site_id=site_id, name=name, id=miner_id)
        await admin.miners.tag(site.first_miner, "spare-parts")
        collector = await admin.collectors.create(site_id=site_id, device_name=f"{site.name} collector")
        made.collectors[site.name] = (collector["token"], collector["hmac_secret"])
        await _create_rules(operators["site"], site_id)


async def _create_rules(client: OperatorClient, site_id: int) -> None:
    hot: Any = {"site_id": site_id, "trigger_type": "threshold", "trigger_metric": "temp_max"}
    await client.rules.create(
        name="Warm: fans to 100 %",
        **hot,
        trigger_operator=">",
        trigger_value=88,
        trigger_duration_seconds=10,
        action_type="SET_FAN",
        action_parameters={"speed": 100},
        cooldown_seconds=120,
        priority=50,
    )
    await client.rules.create(
        name="Too hot: stop hashing",
        **hot,
        trigger_operator=">",
        trigger_value=99,
        action_type="HASHING_DISABLE",
        cooldown_seconds=180,
        priority=100,
    )
    await client.rules.create(
        name="Cool again: start hashing",
        **hot,
        trigger_operator="<",
        trigger_value=40,
        trigger_duration_seconds=20,
        action_type="HASHING_ENABLE",
        cooldown_seconds=180,
    )
    await client.rules.create(
        name="Silent: restart",
        site_id=site_id,
        trigger_type="offline",
        trigger_duration_seconds=45,
        action_type="MINER_RESTART",
        cooldown_seconds=300,
        priority=80,
    )


async def create_clients(operators: Operators, world: World, made: Made) -> None:
    bank = operators["bank"]
    for client in world.clients:
        key = made.client_keys[client.client_id] = ClientKey.make()
        await bank.clients.create(
            name=client.name,
            token_endpoint_auth_method="private_key_jwt",  # noqa: S106 — the name of a method
            client_id=client.client_id,
            jwks=key.jwks,
            scope="eventpolling",
        )
        for tag in client.tags:
            await bank.clients.tag(client.client_id, tag)


async def create_devices(operators: Operators, world: World, fleet: Fleet) -> None:
    owner, owner_id = operators["fleet"], operators.user_ids["fleet"]
    await fleet.register(world.devices, "fleet")
    for device in world.devices:
        for tag in device.tags:
            await owner.devices.tag(owner_id, fleet.devices[device.number].id, tag)
    groups: dict[str, Any] = {
        "Pilot shops": {"tag": "pilot"},
        "Old card readers": {"tag": OLD_READER},
        "Late": {"overdue": True},
    }
    for name, wanted in groups.items():
        await owner.groups.create(name=name, filter=wanted, user_id=owner_id)
    for kind in ("till", "kiosk", "gateway", "scale"):
        params = {"installs": config_of(kind, "7.4"), "change_note": f"{kind}s as in 7.4"}
        await owner.devices.bulk(action="put_config", filter={"tag": kind}, params=params)


def config_of(kind: str, version: str, *, with_reader: bool = False) -> list[dict[str, Any]]:
    """The install config of a kind of device."""
    items: list[dict[str, Any]] = [
        {
            "id": "shop-certificate",
            "type": "copy",
            "from": ["fullchain.pem", "private.key"],
            "to": ["/etc/shop/tls.pem", "/etc/shop/tls.key"],
        },
        {
            "id": "software",
            "type": "exec",
            "cmd": [f"/opt/{kind}/update", "--to", version],
            "depends_on": ["shop-certificate"],
        },
    ]
    if with_reader:
        items.append({"id": READER_ITEM, "type": "exec", "cmd": ["/opt/till/flash-reader", "--firmware", "4.2"]})
    return items


async def create_certificates(operators: Operators, world: World, fleet: Fleet) -> None:
    owner, owner_id = operators["fleet"], operators.user_ids["fleet"]
    authority = await owner.authorities.create(
        owner_id, name="Shop CA", organization="Nordlys Retail", algorithm="ECDSA", common_name="Nordlys Shop CA"
    )
    account = await owner.accounts.create(
        owner_id, name="own", email="pki@demo.example", provider="self", ca_id=authority["id"]
    )
    gateways = [device for device in world.devices if device.kind == "gateway"]
    for device, days in zip(gateways, CERTIFICATE_DAYS, strict=False):
        device_id = fleet.devices[device.number].id
        host = f"gateway{device.number}.shops.example"
        certificate = await owner.certificates.create(owner_id, domain_name=host, acct_id=account["id"])
        await owner.certificates.issue(owner_id, certificate["id"], validity_seconds=days * DAY_SECONDS)
        await owner.authorities.assign(owner_id, device_id, ca_id=authority["id"])
        await owner.certificates.assign(owner_id, device_id, cert_id=certificate["id"])


async def create_history(operators: Operators, world: World, fleet: Fleet, made: Made, shop_outbox: Path) -> None:
    """Something that was refused, something that waits, something that ended."""
    site: SimulatedSite = world.sites[0]
    site_id = made.site_ids[site.name]
    client = operators["site"]
    denied: Any = await client.commands.create(
        site_id=site_id,
        miner_id=site.first_miner,
        command_type="DEVICE_REBOOT",
        params={"reason": "does not show up in the pool"},
        ttl_sec=APPROVAL_SECONDS,
    )
    made.denied_command = denied["command_id"]
    await operators["approver"].commands.deny(made.denied_command, reason="it hashes: look at the pool first")
    waiting: Any = await client.commands.create(
        site_id=site_id,
        all_miners=True,
        command_type="POOL_SET",
        params={"pool_url": "stratum+tcp://pool2.example:3333", "pool_user": "nordlys", "reason": "new contract"},
        ttl_sec=APPROVAL_SECONDS,
    )
    made.waiting_command = waiting["command_id"]
    made.revoked_device = fleet.devices[[device for device in world.devices if device.kind == "kiosk"][-1].number].id
    await operators["fleet"].devices.revoke(operators.user_ids["fleet"], made.revoked_device)
    add_shop_signal(shop_outbox, fleet.devices[1].id, "shop.price", {"article": 4711, "cents": 1299})
    # A device that the shops' application still knows, and the server does not.
    add_shop_signal(shop_outbox, UNKNOWN_DEVICE, "shop.price", {"article": 4711, "cents": 1299})


async def configure_agent(operators: Operators, device_id: int, installed: Path) -> None:
    """A config that the device agent really carries out, within what its owner allows."""
    owner, owner_id = operators["fleet"], operators.user_ids["fleet"]
    await owner.devices.tag(owner_id, device_id, "agent")
    items = [{"id": "mark", "type": "exec", "cmd": ["touch", f"{installed}/configured"]}]
    await owner.configs.put(owner_id, device_id, installs=items, change_note="first version")
