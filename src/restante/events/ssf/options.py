"""The options of Shared Signals, and the URLs that follow from them."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from restante.events.ssf.streams import StreamRules

WELL_KNOWN = "/.well-known/ssf-configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedSignalsOptions:
    # The `iss` claim of tokens, and the base URL for receivers.
    issuer: str
    base_url: str
    rules: StreamRules
    # Whether the server sees client certificates, so that access tokens can be bound to them.
    has_certificates: bool

    def poll_url(self, stream_id: str) -> str:
        """Return the poll URL of a stream; the framework requires one for each stream."""
        return f"{self.base_url}/ssf/streams/{stream_id}/poll"

    def discovery_paths(self) -> list[str]:
        """Return the paths of the configuration document; for an issuer with a path, also with that path appended."""
        path = urlsplit(self.issuer).path.rstrip("/")
        return list(dict.fromkeys([WELL_KNOWN, WELL_KNOWN + path]))
