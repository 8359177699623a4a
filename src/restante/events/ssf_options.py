"""What is configured of shared signals, and the addresses that follow from it."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from restante.events.event_catalogue import SUPPORTED_BY_DEFAULT
from restante.events.streams import StreamRules

WELL_KNOWN = "/.well-known/ssf-configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalsOptions:
    # The tokens' `iss`, and where receivers reach us.
    issuer: str = "http://127.0.0.1:8080"
    base_url: str = "http://127.0.0.1:8080"
    rules: StreamRules = field(default_factory=lambda: StreamRules(SUPPORTED_BY_DEFAULT))

    def poll_url(self, stream_id: str) -> str:
        """Of its own for each stream, as the framework wants it."""
        return f"{self.base_url}/ssf/streams/{stream_id}/poll"

    def discovery_paths(self) -> list[str]:
        """Where the configuration is found; of an issuer with a path, behind which that path stands, too."""
        path = urlsplit(self.issuer).path.rstrip("/")
        return list(dict.fromkeys([WELL_KNOWN, WELL_KNOWN + path]))
