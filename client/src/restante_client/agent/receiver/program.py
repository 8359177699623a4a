"""`restante-agent receiver`: configuration, run, status, doctor."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import httpx
import msgspec
from msgspec import Meta

from restante_client import BlockingEventReceiver, ReceiverOptions
from restante_client.agent.config import AgentConfig, ConfigError, Section
from restante_client.agent.credential_files import credential_file_check, read_credential
from restante_client.agent.program import Check, ExitCode, Program, ProgramError, checked
from restante_client.agent.receiver.sinks import (
    ExecutableSink,
    Sink,
    SinkFailed,
    SinkGone,
    SqliteSink,
    StdoutSink,
    WebhookSink,
)
from restante_client.agent.receiver.work import ReceiverWork
from restante_client.agent.stopping import StoppableRuntime
from restante_client.events.client import DEFAULTS
from restante_client.events.credentials import ClientSecret, Credentials, PrivateKeyJwt, TlsCertificate
from restante_client.events.store import EventStore


class SinkConfig(Section, frozen=True, kw_only=True):
    """The table `[sink]`."""

    kind: Annotated[
        Literal["stdout", "executable", "webhook", "sqlite"], Meta(description="Where events are delivered.")
    ] = "stdout"
    command: Annotated[
        list[str], Meta(description="`executable`: the program, with an absolute path, and its arguments.")
    ] = msgspec.field(default_factory=list)
    url: Annotated[Optional[str], Meta(description="`webhook`: the address.")] = None
    authorization_file: Annotated[
        Optional[str], Meta(description="`webhook`: a file with the value of the header `Authorization`.")
    ] = None
    file: Annotated[Optional[str], Meta(description="`sqlite`: the database file.")] = None
    timeout_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="The longest time for one event: executable and webhook.")
    ] = 30.0


class ReceiverConfig(AgentConfig, frozen=True, kw_only=True):
    """The file `receiver.toml`."""

    client_id: Annotated[str, Meta(min_length=1, description="The id of this client at the server.")]
    authentication: Annotated[
        Literal["private_key_jwt", "tls_client_auth", "client_secret_basic"],
        Meta(description="How this client authenticates. `client_secret_basic` is for development."),
    ] = "private_key_jwt"
    secret_file: Annotated[Optional[str], Meta(description="`client_secret_basic`: the file with the secret.")] = None
    key_file: Annotated[
        Optional[str], Meta(description="The private key, in PEM: of the assertions, or of the certificate.")
    ] = None
    key_id: Annotated[Optional[str], Meta(description="`private_key_jwt`: the `kid` of the assertions.")] = None
    algorithm: Annotated[
        Literal["PS256", "RS256", "ES256", "EdDSA"], Meta(description="`private_key_jwt`: must fit the key.")
    ] = "PS256"
    certificate_file: Annotated[
        Optional[str], Meta(description="The client's certificate for mutual TLS, in PEM, with its chain.")
    ] = None
    endpoint: Annotated[
        str, Meta(description="The poll endpoint; for Shared Signals the `endpoint_url` of the stream.")
    ] = DEFAULTS.endpoint
    scope: Annotated[str, Meta(description="The scope of the access token.")] = DEFAULTS.scope
    issuer: Annotated[Optional[str], Meta(description="The expected `iss` of event tokens. Default: any.")] = None
    audience: Annotated[
        Optional[str], Meta(description="The expected `aud` of event tokens. Default: `client_id`.")
    ] = None
    events_max: Annotated[int, Meta(ge=1, le=1000, description="The most events of one poll.")] = 100
    backlog_max: Annotated[
        int, Meta(ge=1, description="Polls pause while this many stored events wait for the sink.")
    ] = 100_000
    sink: Annotated[SinkConfig, Meta(description="Where events are delivered.")] = SinkConfig()

    def problems(self) -> Iterator[tuple[str, str]]:
        needed = {
            "private_key_jwt": ("key_file",),
            "client_secret_basic": ("secret_file",),
            "tls_client_auth": ("certificate_file", "key_file"),
        }[self.authentication]
        for name in needed:
            if getattr(self, name) is None:
                yield name, f"a file, because authentication is {self.authentication}"
        sink = self.sink
        if sink.kind == "executable" and not (sink.command and sink.command[0].startswith("/")):
            yield "sink.command", "a list that begins with the absolute path of a program"
        if sink.kind == "webhook" and not (sink.url or "").startswith(("https://", "http://")):
            yield "sink.url", "the address of the webhook: https://…"
        if sink.kind == "sqlite" and sink.file is None:
            yield "sink.file", "the database file"

    def http_options(self) -> dict[str, Any]:
        options = super().http_options()
        if self.certificate_file is None:
            return options
        context = options.get("verify") or ssl.create_default_context()
        try:
            context.load_cert_chain(self.certificate_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"certificate_file: {self.certificate_file} cannot be used: {error}") from None
        return {**options, "verify": context}


class ReceiverProgram(Program[ReceiverConfig]):
    config_type = ReceiverConfig

    def run(self, *, is_once: bool) -> ExitCode:
        sink = self._sink()
        try:
            with self._receiver(self.context.state) as receiver:
                work = ReceiverWork(receiver, sink, self.context.stopper, self.log, backlog_max=self.config.backlog_max)
                self.log.info("receiver started", sink=self.config.sink.kind, **receiver.store.waiting())
                if not is_once:
                    work.run()
                    return ExitCode.done
                self.log.info("events delivered", count=work.run_once())
                return ExitCode.done
        except (SinkFailed, SinkGone) as error:
            raise ProgramError(f"an event was not delivered: {error}") from None
        finally:
            sink.close()

    def _receiver(self, state: Path) -> BlockingEventReceiver:
        config = self.config
        options = ReceiverOptions(
            endpoint=config.endpoint,
            scope=config.scope,
            issuer=config.issuer,
            audience=config.audience,
            events_max=config.events_max,
            timeout_seconds=config.timeout_seconds,
        )
        runtime = StoppableRuntime(self.context.stopper, self._is_poll, **config.http_options())
        return BlockingEventReceiver(config.server, self._credentials(), state, options, runtime=runtime)

    def _is_poll(self, request: httpx.Request) -> bool:
        """A poll may be given up: events that are not stored are delivered again, and acknowledgements repeated."""
        return request.method == "POST" and request.url.path.endswith(httpx.URL(self.config.endpoint).path)

    def _credentials(self) -> Credentials:
        config = self.config
        if config.authentication == "client_secret_basic":
            return ClientSecret(config.client_id, read_credential(config.secret_file or "", "secret_file"))
        if config.authentication == "tls_client_auth":
            return TlsCertificate(config.client_id)
        key = read_credential(config.key_file or "", "key_file").encode()
        return PrivateKeyJwt(config.client_id, key, config.algorithm, config.key_id)

    def _sink(self) -> Sink:
        sink = self.config.sink
        if sink.kind == "executable":
            return ExecutableSink(sink.command, sink.timeout_seconds)
        if sink.kind == "webhook":
            authorization = None
            if sink.authorization_file is not None:
                authorization = read_credential(sink.authorization_file, "sink.authorization_file")
            return WebhookSink(sink.url or "", sink.timeout_seconds, {}, authorization)
        if sink.kind == "sqlite":
            return SqliteSink(Path(sink.file or ""))
        return StdoutSink()

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = {"server": self.config.server, "is_running": self.is_running()}
        if not self.context.has_state:
            return found
        store = EventStore(self.context.state)
        try:
            waiting, oldest = store.waiting(), store.next_to_handle()
        finally:
            store.close()
        return {
            **found,
            "stored": waiting["stored"],
            "to_acknowledge": waiting["to_acknowledge"],
            "to_deliver": waiting["to_handle"],
            "next_to_deliver": None if oldest is None else oldest.jti,
        }

    def doctor(self) -> Iterator[Check]:
        for name in ("secret_file", "key_file"):
            file = getattr(self.config, name)
            if file is not None:
                yield credential_file_check(file, name)
        if self.config.sink.authorization_file is not None:
            yield credential_file_check(self.config.sink.authorization_file, "sink.authorization_file")
        yield checked("server", self._reach_server, "check `server`, `ca_file` and the credentials")
        yield checked("sink", self._check_sink, "see the page of the receiver")

    def _reach_server(self) -> str:
        with tempfile.TemporaryDirectory() as folder, self._receiver(Path(folder)) as receiver:
            return f"{receiver.check()} accepts the credentials"

    def _check_sink(self) -> str:
        sink = self._sink()
        try:
            return sink.check()
        finally:
            sink.close()
