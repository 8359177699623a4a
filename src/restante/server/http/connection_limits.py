"""Which connections are admitted: bounds for all of them, for each address, and for file descriptors.

    accepted ─▶ too many for its address? ─▶ too many in all, or few descriptors left? ── no ──▶ admitted
                        │ yes                            │ yes: close the longest idle connection, if there is one
                        ▼                                ▼ none
                     refused                          refused

A refused connection stays open for a moment, to be told 503 when its request arrives. So many of them are open already,
or so few descriptors are left, that it is told at once: `told_now`.

Descriptors are numbered from the lowest free number, so the number of a new one shows how many are in use, whoever uses
them. The last ones are a reserve for the database, for monitoring and for refusals. Reading the number of a connection
costs a system call, so while many are left only some connections are checked.

Invariant: every `enter` is followed by one `leave`. Does not know HTTP.
"""

import resource
import socket
import time
from collections.abc import Callable
from enum import Enum

import structlog

log = structlog.get_logger()

# How many refused connections may be open at once.
REFUSED_MAX = 1000
LOG_SECONDS = 60.0
NO_LIMIT = 1 << 62
# How many connections may be admitted between two checks of descriptors, at most and as a share of those left.
UNCHECKED_MAX = 64
UNCHECKED_SHARE = 4
_MAPPED = bytes(10) + b"\xff\xff"

# The part of an address that shares a bound: all of an IPv4 address, the first 64 bits of an IPv6 address.
AddressKey = str | bytes


class Verdict(Enum):
    admitted = "admitted"
    refused = "refused when its request arrives"
    told_now = "refused at once"


class ConnectionLimits:
    def __init__(
        self,
        connections_max: int,
        per_address_max: int,
        is_trusted_proxy: Callable[[str], bool],
        close_idle: Callable[[], bool],
    ) -> None:
        """`per_address_max` 0: half of all connections, and no bound for loopback addresses. `close_idle` closes the
        connection that has been idle for longest, and returns whether there was one."""
        self.connections_max = connections_max
        self.per_address_max = per_address_max or max(1, connections_max // 2)
        self.descriptor_limit = NO_LIMIT
        self.descriptor_reserve = 0
        self.admitted = 0
        self.refused_now = 0
        # Counted since the start, by reason.
        self.refused = {"connections_max": 0, "address": 0, "descriptors": 0}
        self.idle_closed = 0
        self._counts_loopback = per_address_max > 0
        self._is_trusted_proxy = is_trusted_proxy
        self._close_idle = close_idle
        self._by_address: dict[AddressKey, int] = {}
        self._unchecked_left = 0
        self._next_log = dict.fromkeys(self.refused, 0.0)

    def set_descriptor_limit(self, limit: int) -> None:
        self.descriptor_limit = limit
        self.descriptor_reserve = descriptor_reserve(limit)
        self._unchecked_left = 0

    def needs_descriptor(self) -> bool:
        """Whether `enter` must be given the descriptor of the next connection. If not, that may be 0."""
        self._unchecked_left -= 1
        return self._unchecked_left < 0

    def key_of(self, address: str) -> AddressKey | None:
        """The key under which connections from the address are counted; None: they are not."""
        key = address_key(address)
        if not self._counts_loopback and _is_loopback(key):
            return None
        # All clients of a proxy have its address.
        return None if self._is_trusted_proxy(address) else key

    def enter(self, key: AddressKey | None, descriptor: int) -> Verdict:
        """Decide about a new connection."""
        of_address = self._by_address.get(key, 0) if key is not None else 0
        if of_address >= self.per_address_max:
            return self._refuse("address", descriptor, key)
        free = self.descriptor_limit - self.descriptor_reserve
        if descriptor:
            self._unchecked_left = min(UNCHECKED_MAX, (free - descriptor) // UNCHECKED_SHARE)
        if self.admitted >= self.connections_max or descriptor >= free:
            if not self._close_idle():
                return self._refuse("descriptors" if descriptor >= free else "connections_max", descriptor, None)
            self.idle_closed += 1
        self.admitted += 1
        if key is not None:
            self._by_address[key] = of_address + 1
        return Verdict.admitted

    def leave(self, key: AddressKey | None, verdict: Verdict) -> None:
        if verdict is not Verdict.admitted:
            self.refused_now -= 1
            return
        self.admitted -= 1
        if key is not None:
            left = self._by_address[key] - 1
            if left:
                self._by_address[key] = left
            else:
                del self._by_address[key]

    def count_unaccepted(self) -> None:
        """A connection was closed unanswered, because no descriptor was left."""
        self._count("descriptors", None)

    def _refuse(self, reason: str, descriptor: int, key: AddressKey | None) -> Verdict:
        self._count(reason, key)
        self.refused_now += 1
        few_left = descriptor >= self.descriptor_limit - self.descriptor_reserve * 3 // 4
        return Verdict.told_now if few_left or self.refused_now > REFUSED_MAX else Verdict.refused

    def _count(self, reason: str, key: AddressKey | None) -> None:
        self.refused[reason] += 1
        now = time.monotonic()
        if now >= self._next_log[reason]:
            self._next_log[reason] = now + LOG_SECONDS
            fields = {} if key is None else {"address": key if isinstance(key, str) else f"{key.hex(':', 2)}::/64"}
            log.warning(
                "connections refused", reason=reason, refused=self.refused[reason], open=self.admitted, **fields
            )


def address_key(address: str) -> AddressKey:
    if ":" not in address:
        return address
    try:
        packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    except OSError:
        return address
    # On a dual-stack socket an IPv4 caller has an IPv4-mapped IPv6 address.
    return socket.inet_ntoa(packed[12:]) if packed.startswith(_MAPPED) else packed[:8]


def _is_loopback(key: AddressKey) -> bool:
    # `::1` is the only address of its network that a host accepts from itself.
    return key.startswith("127.") if isinstance(key, str) else key == bytes(8)


def descriptor_reserve(limit: int) -> int:
    """How many of the descriptors are no longer for connections."""
    return min(1024, max(16, limit // 4))


def raise_descriptor_limit() -> int:
    """Raise the limit to the highest that the system allows without privileges, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        log.warning("the limit of file descriptors cannot be raised", limit=soft, error=str(error))
        return soft
    return NO_LIMIT if hard == resource.RLIM_INFINITY else hard
