"""`restante-agent collector`: configuration, run, status, doctor."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Optional

import httpx
from msgspec import Meta

from restante_client import BlockingCollectorClient, CollectorOptions
from restante_client.agent.collector.execution import CommandExecutor, ExecutionRecord
from restante_client.agent.collector.inventory import Inventory, load_inventory
from restante_client.agent.collector.monitor import Monitor
from restante_client.agent.collector.safety import SafetyConfig, SafetyOverride
from restante_client.agent.collector.work import CollectorWork
from restante_client.agent.config import AgentConfig, ConfigError
from restante_client.agent.credential_files import credential_file_check, read_credential
from restante_client.agent.program import Check, ExitCode, Program, checked
from restante_client.agent.stopping import StoppableRuntime
from restante_client.collector.store import CollectorStore

POLL_PATH = "/api/edge/v1/commands/poll"
SPOOL_KEY_BYTES = 32


class CollectorConfig(AgentConfig, frozen=True, kw_only=True):
    """The file `collector.toml`."""

    inventory: Annotated[str, Meta(description="The file with the miners: see [the inventory](#the-inventory).")]
    token_file: Annotated[str, Meta(description="The file with the collector's token.")]
    secret_file: Annotated[Optional[str], Meta(description="The file with the secret that signs commands.")] = None
    old_secret_file: Annotated[
        Optional[str], Meta(description="The file with the former secret, during a rotation.")
    ] = None
    signatures: Annotated[
        bool, Meta(description="Whether commands must be signed. `false` for a server that signs nothing.")
    ] = True
    sign_acks: Annotated[bool, Meta(description="Whether ACKs are signed.")] = False
    workers: Annotated[int, Meta(ge=1, le=50, description="How many commands are carried out at a time.")] = 8
    wait_seconds: Annotated[int, Meta(ge=0, le=30, description="How long the server may hold a poll.")] = 25
    sample_seconds: Annotated[
        float, Meta(ge=0.1, le=3600, description="How often all miners are read, for the safety override.")
    ] = 10.0
    telemetry_seconds: Annotated[
        float, Meta(ge=0.1, le=86_400, description="How often the readings are sent as telemetry.")
    ] = 60.0
    back_seconds: Annotated[
        float, Meta(ge=0, le=3600, description="How long a restarted miner may take until it answers.")
    ] = 120.0
    spool_bytes_max: Annotated[
        int, Meta(ge=65_536, description="The size of the spool: telemetry beyond it is dropped, oldest first.")
    ] = 64 * 1024 * 1024
    spool_age_seconds_max: Annotated[
        float, Meta(ge=60, description="Telemetry that waits longer than this is dropped.")
    ] = 7 * 86_400.0
    spool_key_file: Annotated[
        Optional[str], Meta(description="A file with 64 hex digits: the key that encrypts the spool.")
    ] = None
    safety: Annotated[SafetyConfig, Meta(description="The local safety override.")] = SafetyConfig()

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.signatures and self.secret_file is None:
            yield "secret_file", "the file with the collector's secret, because signatures is true"
        if self.safety.reboot_celsius < self.safety.disable_celsius:
            yield "safety.reboot_celsius", "at least safety.disable_celsius"


class CollectorProgram(Program[CollectorConfig]):
    config_type = CollectorConfig

    def run(self, *, is_once: bool) -> ExitCode:
        inventory = load_inventory(Path(self.config.inventory))
        stop = threading.Event()
        with self._client() as client:
            work = self._work(client, inventory, stop)
            self.log.info("collector started", miners=len(inventory), safety=self.config.safety.enabled)
            if is_once:
                work.run_once()
            else:
                work.run(stop, self.config.sample_seconds, self.config.telemetry_seconds)
            self.log.info("collector stopped", **client.store.waiting())
        return ExitCode.done

    def _work(self, client: BlockingCollectorClient, inventory: Inventory, stop: threading.Event) -> CollectorWork:
        state = client.store.state
        safety = SafetyOverride(self.config.safety, state, client.add_safety_events, self.log)
        record, back_seconds = ExecutionRecord(state), self.config.back_seconds
        executor = CommandExecutor(inventory, record, stop.wait, self.log, back_seconds=back_seconds)
        return CollectorWork(
            client,
            executor,
            Monitor(inventory, safety, client.add_telemetry, self.log),
            self.context.stopper,
            self.log,
            workers=self.config.workers,
            wait_seconds=self.config.wait_seconds,
        )

    def _client(self) -> BlockingCollectorClient:
        runtime = StoppableRuntime(self.context.stopper, _is_poll, **self.config.http_options())
        token = read_credential(self.config.token_file, "token_file")
        return BlockingCollectorClient(self.config.server, token, self.context.state, self._options(), runtime=runtime)

    def _options(self) -> CollectorOptions:
        named = {"secret_file": self.config.secret_file, "old_secret_file": self.config.old_secret_file}
        return CollectorOptions(
            secrets=[read_credential(file, name) for name, file in named.items() if file is not None],
            is_signature_required=self.config.signatures,
            is_signing_acks=self.config.sign_acks,
            timeout_seconds=self.config.timeout_seconds,
            wait_seconds=self.config.wait_seconds,
            spool_bytes_max=self.config.spool_bytes_max,
            spool_age_seconds_max=self.config.spool_age_seconds_max,
            spool_key=self._spool_key(),
        )

    def _spool_key(self) -> Optional[bytes]:
        if self.config.spool_key_file is None:
            return None
        try:
            key = bytes.fromhex(read_credential(self.config.spool_key_file, "spool_key_file"))
        except ValueError:
            key = b""
        if len(key) != SPOOL_KEY_BYTES:
            raise ConfigError(f"spool_key_file: expected {2 * SPOOL_KEY_BYTES} hex digits in the file")
        return key

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = {"server": self.config.server, "is_running": self.is_running()}
        if not self.context.has_state:
            return found
        store = CollectorStore(self.context.state, spool_bytes_max=0, spool_age_seconds_max=0)
        try:
            waiting = store.waiting()
            commands = store.executions_by_state()
        finally:
            store.close()
        return {
            **found,
            "commands_executed": commands.get("finished", 0),
            # Started and without a result: either being carried out now, or the program ended meanwhile.
            "commands_without_result": commands.get("started", 0),
            "waiting_acks": waiting["ack"],
            "waiting_safety_events": waiting["safety"],
            "waiting_telemetry": waiting["telemetry"],
        }

    def doctor(self) -> Iterator[Check]:
        yield credential_file_check(self.config.token_file, "token_file")
        for name in ("secret_file", "old_secret_file", "spool_key_file"):
            file = getattr(self.config, name)
            if file is not None:
                yield credential_file_check(file, name)
        yield checked("server", self._reach_server, "check `server`, `ca_file` and the token")
        try:
            inventory = load_inventory(Path(self.config.inventory))
        except ConfigError as error:
            yield Check("inventory", False, str(error), "see the page of the collector for its format")
            return
        yield Check("inventory", True, f"{len(inventory)} miners")
        for miner in inventory.values():
            advice = "check host, port and --api-listen of the miner"
            yield checked(f"miner {miner.id} at {miner.address}", miner.driver.check, advice)

    def _reach_server(self) -> str:
        """A poll for no commands: the server checks the token, then refuses the limit, and leases nothing."""
        token = read_credential(self.config.token_file, "token_file")
        url = self.config.server.rstrip("/") + POLL_PATH
        with httpx.Client(timeout=self.config.timeout_seconds, **self.config.http_options()) as http:
            response = http.get(url, params={"limit": 0}, headers={"Authorization": f"Bearer {token}"})
        if response.status_code in (200, 400):
            return f"{self.config.server} accepts the token"
        raise ConfigError(f"server: {self.config.server} answers with {response.status_code}")


def _is_poll(request: httpx.Request) -> bool:
    """A poll may be given up: the leases of an answer that is not read end by themselves."""
    return request.url.path.endswith(POLL_PATH)
