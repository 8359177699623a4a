"""The versions of Open Banking's events API, and the paths at which each is served.

    /open-banking/v4.0/events   version 4.0, `events_base`
    /open-banking/v3.1/events   version 3.1, `events_base_v3`
    /events                     the version that `events_root_version` names

The versions differ in their error codes alone: requests, successes and the inbox behind them are the same.
"""

from dataclasses import dataclass
from typing import Literal

Version = Literal["v4.0", "v3.1"]


@dataclass(frozen=True, slots=True)
class ApiBase:
    """A path before `/events` and `/event-subscriptions`, and the version that is served there."""

    path: str
    version: Version


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiPaths:
    """Where the API is served. An empty path serves its version at no path of its own."""

    v4: str
    v3: str
    root_version: Version

    @property
    def preferred(self) -> str:
        """The path in the discovery document: of the newest version that is served."""
        return self.named()[0].path

    def bases(self) -> list[ApiBase]:
        """Every path, the root first."""
        own = [ApiBase(self.v4, "v4.0"), ApiBase(self.v3, "v3.1")]
        return [ApiBase("", self.root_version), *(base for base in own if base.path)]

    def named(self) -> list[ApiBase]:
        """The paths for developers, the newest version first: the root only if there is no other."""
        return self.bases()[1:] or self.bases()
