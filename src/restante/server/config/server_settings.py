"""The settings of the process, its database, its listener, TLS and the limits of connections."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from restante.delivery.redis.redis_address import RedisAddress
from restante.server.cluster.roles import EVERY_ROLE, RoleNames, Roles
from restante.server.config.setting_types import (
    Address,
    Boolean,
    Choice,
    CommaList,
    FilePath,
    FolderPath,
    Integer,
    ListenAddress,
    MasterKeyText,
    NetworkList,
    Number,
    PublicUrl,
    SecretText,
)
from restante.server.config.url_setting_types import (
    DatabaseAddress,
    DatabaseUrl,
    RedisUrl,
)
from restante.web.client_cert import Network

_LOCAL = Address("127.0.0.1", 8080)
_NO_NETWORKS: CommaList[Network] = CommaList()


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    data: Annotated[
        Path, FolderPath(), "The folder with the embedded database, the master key and all other files of the server."
    ] = Path("data")
    database: Annotated[
        DatabaseAddress | None,
        DatabaseUrl(),
        "The PostgreSQL database. Default: an embedded database in the data folder.",
    ] = None
    database_writers: Annotated[
        int, Integer(1, 64), "The number of PostgreSQL connections for writing, per server."
    ] = 4
    database_readers: Annotated[
        int, Integer(1, 64), "The number of PostgreSQL connections for reading, per server."
    ] = 4
    database_wait_seconds: Annotated[
        float,
        Number(0, 86_400),
        "How long a starting server waits for an unreachable PostgreSQL; 0: not at all.",
    ] = 300.0
    database_deadline_seconds: Annotated[
        float,
        Number(0.1, 3600),
        "The most time that a request waits for an answer of the database; then it is refused with 503.",
    ] = 10.0
    listen: Annotated[Address, ListenAddress(), "The address that the server listens on."] = _LOCAL
    roles: Annotated[RoleNames, Roles(), "The roles of this process. Default: all."] = EVERY_ROLE
    workers: Annotated[
        int, Integer(1, 256), "The number of worker processes that share the address; more than one needs PostgreSQL."
    ] = 1
    public_url: Annotated[
        str | None,
        PublicUrl(),
        "The URL under which devices, clients and people reach the server; required unless it listens on loopback"
        " without proxies. Default: the listen address.",
    ] = None
    log_format: Annotated[
        Literal["auto", "console", "json"],
        Choice(("auto", "console", "json")),
        "The format of log lines; auto: console on a terminal, json elsewhere.",
    ] = "auto"
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        Choice(("debug", "info", "warning", "error")),
        "The lowest level of log lines that are written.",
    ] = "info"
    metrics_token: Annotated[
        str | None,
        SecretText(16),
        "The bearer token without which /metrics is refused. Default: none is required.",
    ] = field(default=None, repr=False)
    metrics_listen: Annotated[
        Address | None,
        ListenAddress(),
        "A separate address for /metrics. The main address then does not serve it.",
    ] = None
    metrics_tenants: Annotated[
        bool, Boolean(), "Show tenants in labels of metrics: site_id is the site's id instead of `all`."
    ] = False
    master_key: Annotated[
        str | None,
        MasterKeyText(),
        "The key that encrypts private keys at rest. Default: a key file in the data folder, created if missing.",
    ] = field(default=None, repr=False)
    master_key_next: Annotated[
        str | None,
        MasterKeyText(),
        "The new key while the master key changes. Default: the file master.key.next in the data folder, if it exists.",
    ] = field(default=None, repr=False)
    redis_url: Annotated[
        RedisAddress | None,
        RedisUrl(),
        "The Redis server for a fast copy of the signal log (streams) and of the rate windows (sorted sets).",
    ] = None
    tls_certificate: Annotated[
        Path | None, FilePath(), "The server's certificate with its chain, in PEM; with it, the server terminates TLS."
    ] = None
    tls_key: Annotated[Path | None, FilePath(), "The private key of the server's certificate, in PEM."] = None
    tls_client_ca: Annotated[
        Path | None,
        FilePath(),
        "The certificate authorities that must have issued the clients' certificates, in PEM: mutual TLS.",
    ] = None
    client_crl: Annotated[
        Path | None,
        FilePath(),
        "The revocation lists of these authorities, one of each, in PEM; read again on SIGHUP.",
    ] = None
    trusted_proxies: Annotated[
        CommaList[Network],
        NetworkList(),
        "Proxies that terminate TLS: only their `Client-Cert` header is trusted.",
    ] = _NO_NETWORKS
    forwarded_header: Annotated[
        Literal["none", "x-forwarded-for", "forwarded"],
        Choice(("none", "x-forwarded-for", "forwarded")),
        "The header in which `trusted_proxies` name the address of a sender. Only if the proxy writes it itself.",
    ] = "none"
    mtls_url: Annotated[
        str | None, PublicUrl(), "The URL for clients with certificates, if it is not the public URL."
    ] = None
    connections_max: Annotated[int, Integer(1, 10_000_000), "The most open connections; further ones are refused."] = (
        20_000
    )
    connections_per_address_max: Annotated[
        int,
        Integer(0, 10_000_000),
        "The most open connections from one IPv4 address or IPv6 /64 network; not for `trusted_proxies`. "
        "0: half of `connections_max`, and no limit for loopback addresses.",
    ] = 0
    header_deadline_seconds: Annotated[
        float, Number(0.1, 3600), "The most time for a client to send the headers of a request."
    ] = 10.0
    body_deadline_seconds: Annotated[
        float, Number(0.1, 3600), "The most time for a client to send the body of a request."
    ] = 30.0
    keep_alive_seconds: Annotated[
        float, Number(0.1, 86_400), "How long an idle connection stays open for the next request of the client."
    ] = 75.0
    body_bytes_max: Annotated[int, Integer(1024, 1_073_741_824), "The largest request body."] = 1_048_576
    idempotency_keys_per_caller_max: Annotated[
        int,
        Integer(1, 1_000_000_000),
        "How many idempotency keys of a caller are kept, of all callers four times as many; the oldest go first.",
    ] = 1_000_000
    idempotency_bytes_per_caller_max: Annotated[
        int,
        Integer(1, 1_099_511_627_776),
        "How many bytes of responses are kept with a caller's idempotency keys, of all callers four times as many.",
    ] = 536_870_912
    shutdown_seconds: Annotated[
        float,
        Number(0, 600),
        "The most time for requests in progress to finish when the server stops, whatever the database does.",
    ] = 1.5
    jobs_keep_days: Annotated[
        int,
        Integer(1, 3650),
        "How long ended bulk jobs are kept, with the results of their items and the audit rows of single devices.",
    ] = 365
