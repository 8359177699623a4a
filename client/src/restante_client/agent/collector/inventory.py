"""The local inventory: which miners this collector may reach, and how.

A command names miners by their ids. Their addresses come from this file and from nowhere else: an address in the
parameters of a command is ignored, so a server cannot make a collector connect to other machines of its network.

The file may name code (a driver of the owner): a person who can write the file decides what the collector runs.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Callable, Literal

import msgspec
from msgspec import Meta

from restante_client.agent.collector.cgminer import DIALECTS, OPERATIONS, CgMiner
from restante_client.agent.collector.cgminer_api import PORT, TIMEOUT_SECONDS, CgMinerApi
from restante_client.agent.collector.drivers import Driver
from restante_client.agent.config import ConfigError, Section, read_toml


class MinerEntry(Section, frozen=True, kw_only=True):
    """One `[[miners]]` of the inventory."""

    id: Annotated[int, Meta(ge=1, description="The id of the miner at the server.")]
    host: Annotated[str, Meta(min_length=1, description="Its name or address in the local network.")]
    port: Annotated[int, Meta(ge=1, le=65_535, description="The port of its API.")] = PORT
    driver: Annotated[
        str, Meta(description="`cgminer`, or `module:function` of your own, which makes a driver from this entry.")
    ] = "cgminer"
    dialect: Annotated[
        Literal["cgminer", "avalon"], Meta(description="How this make spells fan, frequency, power mode and reboot.")
    ] = "cgminer"
    timeout_seconds: Annotated[
        float, Meta(gt=0, le=300, description="The longest time that an answer of the miner may take.")
    ] = TIMEOUT_SECONDS
    operations: Annotated[
        dict[str, str],
        Meta(description='Other spellings of single operations, as in the table below; `""` for none.'),
    ] = msgspec.field(default_factory=dict)


class InventoryFile(Section, frozen=True, kw_only=True):
    """The file: a list of miners."""

    miners: Annotated[list[MinerEntry], Meta(description="The miners.")]


@dataclass(frozen=True)
class Miner:
    """A miner of the inventory. A thread holds the lock while it uses the driver."""

    id: int
    address: str
    driver: Driver
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)


Inventory = Mapping[int, Miner]


def load_inventory(file: Path) -> Inventory:
    """Read the file, or raise `ConfigError` that names the file and what is wrong."""
    try:
        found = msgspec.convert(read_toml(file), InventoryFile)
        miners = {entry.id: _miner(entry) for entry in found.miners}
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except (msgspec.ValidationError, ConfigError) as error:
        raise ConfigError(f"{file}: {error}") from None
    if len(miners) != len(found.miners):
        raise ConfigError(f"{file}: miners: expected each id once")
    return miners


def _miner(entry: MinerEntry) -> Miner:
    unknown = sorted(set(entry.operations) - set(OPERATIONS))
    if unknown:
        raise ConfigError(f"miner {entry.id}: operations: expected {', '.join(OPERATIONS)}, not {unknown[0]}")
    return Miner(entry.id, f"{entry.host}:{entry.port}", _driver(entry))


def _driver(entry: MinerEntry) -> Driver:
    if entry.driver == "cgminer":
        api = CgMinerApi(entry.host, entry.port, entry.timeout_seconds)
        return CgMiner(api, {**DIALECTS[entry.dialect], **entry.operations})
    module, _, name = entry.driver.partition(":")
    try:
        make: Callable[[MinerEntry], Driver] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"miner {entry.id}: driver: expected cgminer or module:function: {error}") from None
    return make(entry)
