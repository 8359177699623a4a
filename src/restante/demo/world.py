"""The names of the demo: shops with devices, sites with miners, clients of a bank, people.

The same seed makes the same world.
"""

import random
import uuid
from dataclasses import dataclass

SHOPS = (
    "Aarhus", "Bergen", "Chur", "Delft", "Esbjerg", "Falun", "Ghent", "Haarlem", "Innsbruck", "Jyväskylä",
    "Kolding", "Leuven", "Malmö", "Namur", "Odense", "Passau", "Roskilde", "Siena", "Turku", "Uppsala",
    "Vaasa", "Winterthur", "Ystad", "Zwolle", "Linz",
)  # fmt: skip
PILOT_SHOPS = ("Aarhus", "Bergen", "Chur")
# The devices of a shop: kind, how many, model, operating system.
EQUIPMENT = (
    ("till", 4, "NordPOS T4", "linux"),
    ("kiosk", 2, "Infopoint 22", "linux"),
    ("gateway", 1, "Edgebox 3", "linux"),
    ("scale", 1, "Wägewerk S2", "windows"),
)
SITES = (("Boden north", 1), ("Luleå harbour", 2), ("Mo i Rana", 3))
OLD_READER = "reader-v1"
# Every fourth till outside the pilot shops has the old card reader: too many for a rollout that allows 5 % errors.
OLD_READER_EVERY = 4


@dataclass(frozen=True, slots=True)
class SimulatedDevice:
    number: int
    name: str
    kind: str
    model: str
    platform: str
    app_version: str
    tags: tuple[str, ...]
    public_id: str

    @property
    def has_old_reader(self) -> bool:
        return OLD_READER in self.tags


@dataclass(frozen=True, slots=True)
class SimulatedSite:
    name: str
    first_miner: int
    miner_names: tuple[str, ...]

    @property
    def miner_ids(self) -> range:
        return range(self.first_miner, self.first_miner + len(self.miner_names))


@dataclass(frozen=True, slots=True)
class EventClient:
    client_id: str
    name: str
    behaviour: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DemoPerson:
    key: str
    email: str
    grants: tuple[tuple[str, str], ...]
    does: str


CLIENTS = (
    EventClient("fernwood", "Fernwood Accounting", "agent", ("aisp", "live")),
    EventClient("halyard", "Halyard Payments", "agent", ("pisp", "live")),
    EventClient("pocketbook", "Pocketbook Budgeting", "slow", ("aisp", "live")),
    EventClient("ledgerline", "Ledgerline Invoices", "errors", ("pisp", "onboarding")),
)
PEOPLE = (
    DemoPerson("admin", "astrid@demo.example", (("admin", "all"),), "everything"),
    DemoPerson("fleet", "bjarne@demo.example", (("operator", "updates"),), "the shops' devices"),
    DemoPerson("site", "carla@demo.example", (("operator", "commands"),), "the sites and their miners"),
    DemoPerson("approver", "dmitri@demo.example", (("approver", "commands"),), "approves what stops miners"),
    DemoPerson("bank", "emma@demo.example", (("admin", "events"),), "the bank's third parties"),
    DemoPerson("viewer", "finn@demo.example", (("viewer", "commands"),), "may only look at the sites"),
)


@dataclass(frozen=True, slots=True)
class World:
    seed: int
    devices: tuple[SimulatedDevice, ...]
    sites: tuple[SimulatedSite, ...]
    clients: tuple[EventClient, ...] = CLIENTS
    people: tuple[DemoPerson, ...] = PEOPLE

    @classmethod
    def make(cls, seed: int, devices: int, miners: int) -> "World":
        source = random.Random(seed)  # noqa: S311 — names, not secrets
        return cls(seed, _devices(source, devices), _sites(miners))


def _devices(source: random.Random, count: int) -> tuple[SimulatedDevice, ...]:
    """The shops are filled one after another; beyond the last shop the numbers go on."""
    found: list[SimulatedDevice] = []
    tills = 0
    storey = 0
    while len(found) < count:
        for shop in SHOPS:
            for kind, number, model, platform in EQUIPMENT:
                for index in range(1, number + 1):
                    tills += kind == "till"
                    is_old = kind == "till" and shop not in PILOT_SHOPS and tills % OLD_READER_EVERY == 0
                    found.append(
                        SimulatedDevice(
                            number=len(found) + 1,
                            name=f"{shop} {kind} {storey * number + index}",
                            kind=kind,
                            model=model,
                            platform=platform,
                            app_version=source.choice(("7.3.1", "7.4.0", "7.4.0")),
                            tags=(
                                kind,
                                *(("pilot",) if shop in PILOT_SHOPS else ()),
                                *((OLD_READER,) if is_old else ()),
                            ),
                            public_id=str(uuid.UUID(int=source.getrandbits(128), version=4)),
                        )
                    )
        storey += 1
    return tuple(found[:count])


def _sites(miners: int) -> tuple[SimulatedSite, ...]:
    found = []
    for index, (name, number) in enumerate(SITES):
        share = miners // len(SITES) + (index < miners % len(SITES))
        names = tuple(f"rack {'ABCDEFGHIJ'[place // 10 % 10]}-{place % 10 + 1:02}" for place in range(share))
        found.append(SimulatedSite(name, number * 1000 + 1, names))
    return tuple(found)
