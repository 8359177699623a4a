"""Configuration and start of the real programs: the server, and the agents of sites, of one device, of two clients."""

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path

from restante_client import OperatorClient

from restante.demo.processes import AGENT, MINERS, SERVER, Program, Programs
from restante.demo.receivers import ALGORITHM, KEY_ID, ClientKey
from restante.demo.world import SimulatedSite

ADDRESS = re.compile(r"serves (http://\S+)")
START_SECONDS = 60.0
LOOK_SECONDS = 0.05
FAULT_SECONDS = 45.0
SHOP_OUTBOX = "shop"

# Short times, so that much happens in a few minutes.
SETTINGS: dict[str, str | int | bool] = {
    "poll_interval_seconds": 40,
    "boost_poll_interval_seconds": 8,
    "boost_window_seconds": 60,
    "commands_needing_approval": "DEVICE_REBOOT, POOL_SET",
    "enable_command_signature": True,
    "default_retry_backoff_sec": 15,
    "event_signing_alg": "ES256",
    "event_signing_processes": 1,
    "log_level": "warning",
}


class StartFailed(OSError):
    """A program of the demo did not start."""


async def create_data_folder(
    programs: Programs, data: Path, email: str, password: str, program: Sequence[str] = SERVER
) -> None:
    """Create the server's data folder with its first person."""
    arguments = ["--data", str(data), "--user", email, "--password-stdin"]
    init = await programs.run("init", program, ["init", *arguments], stdin=f"{password}\n".encode())
    if await init.process.wait():
        raise StartFailed(f"restante init failed:\n{init.log.read_text(encoding='utf-8', errors='replace').strip()}")


async def start_server(
    programs: Programs, data: Path, listen: str, outbox: Path, program: Sequence[str] = SERVER
) -> str:
    """Start the server and wait until it serves; returns its URL."""
    settings = {**SETTINGS, "data": str(data), "listen": listen, "outbox": f"sqlite://{outbox}?name={SHOP_OUTBOX}"}
    config = data.with_name("server.toml")
    # Texts, numbers, true and false are the same in TOML and JSON.
    config.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items()), encoding="utf-8")
    server = await programs.start("server", program, ["serve", "--config", str(config)], essential=True)
    return await _found_in_log(server, ADDRESS)


async def _found_in_log(program: Program, pattern: re.Pattern[str]) -> str:
    """The first group of the pattern in the program's output, once it is there."""
    async with asyncio.timeout(START_SECONDS):
        while True:
            text = program.log.read_text(encoding="utf-8", errors="replace")
            if found := pattern.search(text):
                return found[1]
            if program.process.returncode is not None:
                raise StartFailed(f"{program.name} did not start:\n{text.strip()}")
            await asyncio.sleep(LOOK_SECONDS)


async def start_site(programs: Programs, folder: Path, site: SimulatedSite, seed: int) -> Path:
    """Start the miners of a site; returns their inventory."""
    inventory = folder / "inventory.toml"
    first = site.first_miner
    arguments = ["--count", str(len(site.miner_ids)), "--first-id", str(first), "--seed", str(seed + first)]
    arguments += ["--faults", str(FAULT_SECONDS), "--inventory", str(inventory)]
    program = await programs.start(f"miners of {site.name}", MINERS, arguments)
    await _found_in_log(program, re.compile(rf"(id = {site.miner_ids[-1]}\n.*\nport)"))
    return inventory


async def start_collector(
    programs: Programs, url: str, folder: Path, site: SimulatedSite, token: str, secret: str
) -> None:
    (folder / "token").write_text(token, encoding="utf-8")
    (folder / "secret").write_text(secret, encoding="utf-8")
    config = folder / "collector.toml"
    config.write_text(
        f"""server = "{url}"
state = "{folder}/state"
inventory = "{folder}/inventory.toml"
token_file = "{folder}/token"
secret_file = "{folder}/secret"
sample_seconds = 10
telemetry_seconds = 10
back_seconds = 30

[safety]
enabled = true
disable_celsius = 104
reboot_celsius = 125
""",
        encoding="utf-8",
    )
    await programs.start(f"collector of {site.name}", AGENT, ["collector", "run", "--config", str(config)])


async def start_device_agent(programs: Programs, url: str, folder: Path, name: str, owner: OperatorClient) -> int:
    """Enrol the device agent as a person would, by its code, and start it; returns the device's id."""
    installed, trusted, state = folder / "installed", folder / "trusted", folder / "state"
    for each in (installed, trusted):
        each.mkdir(parents=True)
    config = folder / "device.toml"
    config.write_text(
        f"""server = "{url}"
name = "{name}"
model = "Edgebox 3"
state = "{state}"

[allow]
paths = ["{installed}"]
commands = ["touch {installed}/*"]

[trust]
folder = "{trusted}"
update_command = ["true"]
""",
        encoding="utf-8",
    )
    enrolment = await programs.run("enrolment", AGENT, ["device", "enrol", "--config", str(config)])
    code = await _found_in_log(enrolment, re.compile(r"enter (\S+)"))
    await owner.request("POST", "/auth/device", body={"action": "device_verify", "user_code": code, "approve": True})
    device_id = int(await _found_in_log(enrolment, re.compile(r"enrolled as device (\d+)")))
    await enrolment.process.wait()
    await programs.start("device agent", AGENT, ["device", "run", "--config", str(config)])
    return device_id


async def start_receiver(programs: Programs, url: str, folder: Path, client_id: str, key: ClientKey) -> None:
    folder.mkdir(parents=True)
    (folder / "receiver.key").write_bytes(key.pem)
    config = folder / "receiver.toml"
    config.write_text(
        f"""server = "{url}"
state = "{folder}/state"
client_id = "{client_id}"
key_file = "{folder}/receiver.key"
key_id = "{KEY_ID}"
algorithm = "{ALGORITHM}"

[sink]
kind = "sqlite"
file = "{folder}/events.db"
""",
        encoding="utf-8",
    )
    await programs.start(f"receiver {client_id}", AGENT, ["receiver", "run", "--config", str(config)])
