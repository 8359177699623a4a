"""Commands as a collector gets them, and the results that it reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Optional, Union

from restante_client.errors import Unreachable
from restante_client.runtime import steady_seconds

SUCCEEDED = "succeeded"
FAILED = "failed"
REJECTED = "rejected"
DEFERRED = "deferred"
STATUSES = (SUCCEEDED, FAILED, REJECTED, DEFERRED)
MESSAGE_MAX = 4096


@dataclass(frozen=True)
class Command:
    """A command whose signature was checked, with its lease.

    The ends of the lease and of the command are on this machine's steady clock. They were computed from the server's
    own time, so a wrong clock of this machine does not matter.
    """

    command_id: str
    site_id: int
    zone_id: int
    miner_id: Optional[int]
    command_type: str
    params: dict[str, Any]
    priority: int
    attempt: int
    nonce: str
    lease_ends: float
    expires: float
    fields: dict[str, Any] = field(repr=False)

    @property
    def target_ids(self) -> list[int]:
        """The miners: one, or those of a command for several miners."""
        if self.miner_id is not None:
            return [self.miner_id]
        found = self.params.get("target_ids")
        return [int(each) for each in found] if isinstance(found, list) else []

    @property
    def lease_seconds_left(self) -> float:
        """How long the lease and the command are still valid; negative if they are not."""
        return min(self.lease_ends, self.expires) - steady_seconds()

    @property
    def is_expired(self) -> bool:
        """Whether the command has expired."""
        return steady_seconds() >= self.expires


@dataclass(frozen=True)
class Result:
    """The result of a command."""

    status: str = SUCCEEDED
    result_code: Union[int, str] = 0
    message: str = ""
    before: Optional[dict[str, Any]] = None
    after: Optional[dict[str, Any]] = None
    retry_after_seconds: Optional[int] = None

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status: expected one of {', '.join(STATUSES)}, not {self.status!r}")

    def body(self, executed_at: datetime) -> dict[str, Any]:
        """The fields of the ACK, without those that belong to one dispatch."""
        body: dict[str, Any] = {
            "status": self.status,
            "result_code": self.result_code,
            "message": self.message[:MESSAGE_MAX],
            "executed_at": iso(executed_at),
        }
        if self.before is not None:
            body["before_snapshot"] = self.before
        if self.after is not None:
            body["after_snapshot"] = self.after
        if self.retry_after_seconds is not None:
            body["retry_after_sec"] = self.retry_after_seconds
        return body


def command_of(fields: dict[str, Any], server_time: str, received: float) -> Command:
    """Build a command from the fields of a poll's response that arrived at this time of the steady clock."""
    try:
        # The server's time is not signed. It cannot be before the signature.
        now = max(parse_time(server_time), parse_time(fields["signed_at"]))
        return Command(
            command_id=str(fields["command_id"]),
            site_id=int(fields["site_id"]),
            zone_id=int(fields["zone_id"]),
            miner_id=None if fields["miner_id"] is None else int(fields["miner_id"]),
            command_type=str(fields["command_type"]),
            params=dict(fields["params"]),
            priority=int(fields["priority"]),
            attempt=int(fields["attempt"]),
            nonce=str(fields["nonce"]),
            lease_ends=received + (parse_time(fields["lease_until"]) - now).total_seconds(),
            expires=received + (parse_time(fields["expires_at"]) - now).total_seconds(),
            fields=fields,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Unreachable(f"the response to a poll has a command that is not one: {error}") from None


def parse_time(text: Any) -> datetime:
    """A time as the protocol writes it: UTC, ISO 8601."""
    if not isinstance(text, str):
        raise Unreachable("the response has no valid time")
    try:
        found = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        raise Unreachable("the response has no valid time") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)


def iso(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
