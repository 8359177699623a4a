"""External issuers: issuers whose tokens are accepted beside our own, and their public keys.

Keys are fetched in a thread, bounded in time and size, and cached. They are fetched again when they are old or when a
token names an unknown key, but at most once per REFETCH_SECONDS_MIN for each issuer: a flood of invented key names
does not reach the issuer. A failed fetch changes nothing: the cached keys stay valid.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog
from joserfc.jwk import Key

from restante.identity.jwt import jwks

log = structlog.get_logger()

ALGORITHMS = frozenset(
    ["EdDSA", "Ed25519", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"]
)
LOOPBACK = ("127.0.0.1", "::1", "localhost")
REFETCH_SECONDS_MIN = 30.0
KEYS_OLD_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class ExternalIssuer:
    """A configured issuer; raises ValueError if the configuration is not safe."""

    issuer: str
    jwks: str
    audience: str | None
    algorithms: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.algorithms or not ALGORITHMS.issuperset(self.algorithms):
            raise ValueError(f"issuer {self.issuer}: algorithms must be of {', '.join(sorted(ALGORITHMS))}")
        address = urlsplit(self.jwks)
        if address.scheme == "http" and address.hostname not in LOOPBACK:
            raise ValueError(f"issuer {self.issuer}: the jwks address must be https, or http on this machine")
        if address.scheme not in ("https", "http", ""):
            raise ValueError(f"issuer {self.issuer}: jwks must be an https address or the path of a file")


class ExternalIssuers:
    def __init__(
        self,
        configured: tuple[ExternalIssuer, ...] = (),
        *,
        load: Callable[[str], dict[str, Key]] = jwks.load,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if len({issuer.issuer for issuer in configured}) != len(configured):
            raise ValueError("an issuer is configured twice")
        self._caches = {issuer.issuer: _KeyCache(issuer, load) for issuer in configured}
        self._clock = clock

    def find(self, issuer: str) -> ExternalIssuer | None:
        cache = self._caches.get(issuer)
        return cache.issuer if cache else None

    async def key(self, issuer: str, kid: str) -> Key | None:
        """The issuer's key with that `kid`. Waits for a fetch if the key is unknown, not if it is only old."""
        cache = self._caches[issuer]
        fetch = cache.fetch_if_due(kid, self._clock())
        if fetch is not None and kid not in cache.keys:
            await asyncio.shield(fetch)
        return cache.keys.get(kid)


class _KeyCache:
    """The keys of one issuer."""

    def __init__(self, issuer: ExternalIssuer, load: Callable[[str], dict[str, Key]]) -> None:
        self.issuer = issuer
        self.keys: dict[str, Key] = {}
        self._load = load
        self._fetching: asyncio.Task[None] | None = None
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")

    def fetch_if_due(self, kid: str, now: float) -> "asyncio.Task[None] | None":
        """The running fetch, started now if it is due and allowed."""
        if self._fetching is not None and not self._fetching.done():
            return self._fetching
        is_due = kid not in self.keys or now - self._fetched_at >= KEYS_OLD_SECONDS
        if not is_due or now - self._tried_at < REFETCH_SECONDS_MIN:
            return None
        self._tried_at = now
        self._fetching = asyncio.create_task(self._fetch(now))
        return self._fetching

    async def _fetch(self, now: float) -> None:
        try:
            self.keys = await asyncio.to_thread(self._load, self.issuer.jwks)
            self._fetched_at = now
        except (OSError, ValueError) as error:
            log.warning("issuer keys not fetched", issuer=self.issuer.issuer, error=str(error))
