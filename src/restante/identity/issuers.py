"""Outside issuers: whose tokens are accepted beside ours, and the public keys they are verified with.

Keys are fetched in a thread, bounded in time and size, and kept. They are fetched again when they are old
or when a token names a key we have not seen, but at most once in a while per issuer: a flood of made-up key
names is not passed on. A fetch that fails changes nothing: the keys we have go on counting.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog
from joserfc.jwk import Key

from restante.identity import jwks

log = structlog.get_logger()

ALGORITHMS = frozenset(
    ["EdDSA", "Ed25519", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512"]
)
LOOPBACK = ("127.0.0.1", "::1", "localhost")
REFETCH_SECONDS_MIN = 30.0
KEYS_OLD_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class OutsideIssuer:
    """An issuer as configured; refuses with ValueError what would not be safe."""

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


class OutsideIssuers:
    def __init__(
        self,
        configured: tuple[OutsideIssuer, ...] = (),
        *,
        load: Callable[[str], dict[str, Key]] = jwks.load,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if len({issuer.issuer for issuer in configured}) != len(configured):
            raise ValueError("an issuer is configured twice")
        self._kept = {issuer.issuer: _KeptKeys(issuer, load) for issuer in configured}
        self._clock = clock

    def find(self, issuer: str) -> OutsideIssuer | None:
        kept = self._kept.get(issuer)
        return kept.issuer if kept else None

    async def key(self, issuer: str, kid: str) -> Key | None:
        """The issuer's key of that name. One we do not have is waited for; one that is only old is not."""
        kept = self._kept[issuer]
        fetching = kept.fetch_if_due(kid, self._clock())
        if fetching is not None and kid not in kept.keys:
            await asyncio.shield(fetching)
        return kept.keys.get(kid)


class _KeptKeys:
    """What we have of one issuer."""

    def __init__(self, issuer: OutsideIssuer, load: Callable[[str], dict[str, Key]]) -> None:
        self.issuer = issuer
        self.keys: dict[str, Key] = {}
        self._load = load
        self._fetching: asyncio.Task[None] | None = None
        self._fetched_at = float("-inf")
        self._tried_at = float("-inf")

    def fetch_if_due(self, kid: str, now: float) -> "asyncio.Task[None] | None":
        """The fetch under way, begun now if it is wanted and allowed."""
        if self._fetching is not None and not self._fetching.done():
            return self._fetching
        wanted = kid not in self.keys or now - self._fetched_at >= KEYS_OLD_SECONDS
        if not wanted or now - self._tried_at < REFETCH_SECONDS_MIN:
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
