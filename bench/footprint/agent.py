"""What the device agent costs a small machine: installed size, resident memory and CPU while it is idle.

The agent is installed into a bare virtual environment, as on a device, and polls a server over TLS with all public
authorities loaded. It has installed a certificate before it is measured, so that nothing is loaded afterwards.
"""

import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import certifi
import httpx
from restante_client import BlockingDeviceClient, DeviceCode, DeviceOptions
from restante_client.testing import USER_EMAIL, USER_PASSWORD, LocalServer

from bench.tools.processes import CLIENT_CORE, SERVER_CORE, cpu_seconds, pinned, serve_command
from tests.documented import REPOSITORY
from tests.pki import Pki

IDLE_SECONDS = 60.0
# A fleet's usual pace is minutes. This is the worst case: a long poll is held all the time.
INTERVAL_SECONDS = "15"
MEMORY_BYTES = 1024 * 1024
TOOLS = ("pip", "setuptools", "wheel", "pkg_resources", "_distutils_hack")


def footprint() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = _install(folder / "venv")
        found = _run(folder)
    return {"installed, with all dependencies: MiB": size, **found}


def _install(venv: Path) -> float:
    """Install the client into a bare environment; the size is that of the environment without the tools of Python."""
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    # Building leaves files beside the source.
    copy = venv.with_name("client")
    shutil.copytree(REPOSITORY / "client", copy, ignore=shutil.ignore_patterns(".venvs", "*.egg-info", "tests"))
    pip = [str(venv / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, str(copy)], check=True, stderr=subprocess.DEVNULL)
    (packages,) = (venv / "lib").glob("python3*/site-packages")
    paths = [path for path in packages.iterdir() if not path.name.startswith(TOOLS)]
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    return sum(file.stat().st_size for file in files if file.suffix != ".pyc") / MEMORY_BYTES


def _run(folder: Path) -> dict[str, float]:
    prepared = LocalServer()
    (folder / "pki").mkdir()
    pki = Pki(folder / "pki")
    authorities = folder / "authorities.pem"
    authorities.write_bytes(Path(certifi.where()).read_bytes() + pki.authority.certificate.read_bytes())
    flags = ["--tls-certificate", str(pki.server.certificate), "--tls-key", str(pki.server.key)]
    flags += ["--poll-interval-seconds", INTERVAL_SECONDS, "--boost-poll-interval-seconds", INTERVAL_SECONDS]
    url = f"https://127.0.0.1:{prepared.port}"
    try:
        with pinned(SERVER_CORE, serve_command(prepared.data, prepared.port, *flags), prepared.port):
            context = ssl.create_default_context(cafile=str(authorities))
            _prepare_device(url, context, folder, prepared.user_id)
            (folder / "device.toml").write_text(
                f'server = "{url}"\nca_file = "{authorities}"\nstate = "{folder}/state"\n[trust]\nstore = "none"\n'
            )
            return _measure(folder)
    finally:
        prepared.close()


def _prepare_device(url: str, context: ssl.SSLContext, folder: Path, user_id: int) -> None:
    """Register the device and give it a certificate."""
    with httpx.Client(base_url=url, headers={"Origin": url}, verify=context, timeout=60) as person:

        def post(path: str, **body: object) -> dict[str, int]:
            response = person.post(path, json=body)
            response.raise_for_status()
            found: dict[str, int] = response.json().get("data", {}) if response.content else {}
            return found

        def approve(code: DeviceCode) -> None:
            post("/auth/device", action="device_verify", user_code=code.user_code, approve=True)

        post("/auth/general", action="login", email=USER_EMAIL, password=USER_PASSWORD)
        with BlockingDeviceClient(url, folder / "state", DeviceOptions(http={"verify": context})) as device:
            device.enrol(approve)
            device_id = device.store.device_id
        mine = f"/apiv1/users/{user_id}"
        ca = post(f"{mine}/cas", name="a", algorithm="ECDSA", common_name="a", valid_days=30)
        account = post(f"{mine}/acme-accounts", name="a", email="a@example.com", provider="self", ca_id=ca["id"])
        made = post(f"{mine}/certificates", domain_name="a.example", acct_id=account["id"], action="create")
        post(f"{mine}/certificates/{made['id']}/issues", validity_seconds=86_400)
        post(f"{mine}/devices/{device_id}/certificates", cert_id=made["id"])


def _measure(folder: Path) -> dict[str, float]:
    program = [
        str(folder / "venv" / "bin" / "restante-agent"),
        "device",
        "run",
        "--config",
        str(folder / "device.toml"),
    ]
    log = folder / "log"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with log.open("wb") as output:
        process = subprocess.Popen(["taskset", "-c", CLIENT_CORE, *program], stderr=output, env=environment, cwd=folder)
    try:
        _wait_for_certificate(log, process)
        started, used = time.monotonic(), cpu_seconds([process.pid])
        time.sleep(IDLE_SECONDS)
        busy = (cpu_seconds([process.pid]) - used) / (time.monotonic() - started)
        memory = _memory(process.pid)
    finally:
        process.terminate()
        process.wait(60)
    return {
        "resident memory after a minute: MiB": memory["VmRSS"],
        "most resident memory so far: MiB": memory["VmHWM"],
        "CPU while idle, long polls of 15 s: % of a core": busy * 100,
    }


def _wait_for_certificate(log: Path, process: "subprocess.Popen[bytes]") -> None:
    end = time.monotonic() + 120
    while not any(json.loads(line)["event"] == "staged" for line in log.read_text().splitlines() if line[:1] == "{"):
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"the agent does not work: {log.read_text()[-2000:]}")
        time.sleep(0.1)


def _memory(pid: int) -> dict[str, float]:
    lines = [line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return {words[0].rstrip(":"): int(words[1]) / 1024 for words in lines if words[0] in ("VmRSS:", "VmHWM:")}
