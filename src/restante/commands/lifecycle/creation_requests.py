"""Operators' requests for commands: one or many, all in one transaction, and only once per idempotency key."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.body_ids import BodyWithIds, Id
from restante.commands.lifecycle import approval, approval_policy
from restante.commands.lifecycle.approval import ApprovalRules
from restante.commands.lifecycle.command_types import standard_type
from restante.commands.lifecycle.creation import (
    CommandRequest,
    Created,
    CreationOptions,
    count_miners,
    create,
    lock_makers,
)
from restante.commands.lifecycle.secret_params import may_have_secrets
from restante.commands.sites.collectors import SecretBox
from restante.commands.sites.site_scope import check_body
from restante.core.errors import BadInput
from restante.core.iso_time import parse_iso
from restante.database.connection import Connection
from restante.identity import idempotency
from restante.identity.grants import ALL_IDS, AllowedIds
from restante.identity.idempotency import IdempotentRequest, IdempotentResult

COMMANDS_MAX = 500

T = TypeVar("T")
R = TypeVar("R")

_encoder = msgspec.json.Encoder()


class CommandFields(BodyWithIds, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The optional fields of a command. One of `miner_id`, `target_ids` and `all_miners` names the miners."""

    id_fields = ("site_id", "miner_id", "target_ids", "zone_id")

    miner_id: Id | None = None
    target_ids: list[Id] | None = None
    all_miners: bool = False
    zone_id: Id | None = None
    params: msgspec.Raw | UnsetType = UNSET
    priority: int = 0
    ttl_sec: int | None = None
    expires_at: str | None = None
    dedupe_key: str | None = None
    max_retries: int | None = None
    supersedes: str | None = None


class CommandBody(CommandFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of many commands."""

    site_id: Id
    command_type: str

    def to_request(self) -> CommandRequest:
        fields = {name: getattr(self, name) for name in self.__struct_fields__ if name not in ("params", "expires_at")}
        return CommandRequest(
            **fields,
            params=b"{}" if isinstance(self.params, UnsetType) else bytes(self.params),
            expires_at_ms=None if self.expires_at is None else parse_iso(self.expires_at, "expires_at"),
        )


class CreationBody(CommandFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One command, or many in `commands` without any other field."""

    site_id: Id | UnsetType = UNSET
    command_type: str | UnsetType = UNSET
    commands: Annotated[list[CommandBody], Meta(min_length=1, max_length=COMMANDS_MAX)] | UnsetType = UNSET

    @property
    def is_many(self) -> bool:
        return self.commands is not UNSET

    def bodies(self) -> list[CommandBody]:
        if isinstance(self.commands, UnsetType):
            return [self._single()]
        if self != CreationBody(commands=self.commands):
            raise BadInput("commands", "no other field beside it")
        return self.commands

    def _single(self) -> CommandBody:
        for required in ("site_id", "command_type"):
            if getattr(self, required) is UNSET:
                raise BadInput(required, "a value, it is required")
        return CommandBody(**{name: getattr(self, name) for name in CommandBody.__struct_fields__})


class CreatedMany(msgspec.Struct, frozen=True):
    commands: list[Created]
    count: int


@dataclass(frozen=True, slots=True)
class CreationRequest:
    body: CreationBody
    actor: str
    idempotency_key: str | None = None
    sites: AllowedIds = ALL_IDS
    makers: tuple[str, ...] = ()


def create_commands(
    conn: Connection, trail: AuditTrail, options: CreationOptions, request: CreationRequest
) -> IdempotentResult:
    _check_sites(request)
    idempotent = IdempotentRequest(request.actor, request.idempotency_key, _digested(request.body, options.box))
    return idempotency.run_once(conn, idempotent, lambda: _encoder.encode(_created(conn, trail, options, request)))


def _digested(body: CreationBody, box: SecretBox) -> bytes:
    """The text by which the same request is recognised. It is stored as an unkeyed digest, so secrets must not be in
    it."""
    text = _encoder.encode(body)
    return box.body_mac.digest(text) if any(may_have_secrets(each.command_type) for each in body.bodies()) else text


def _check_sites(request: CreationRequest) -> None:
    """Refuse sites outside the caller's grants like missing ones, before a stored response is looked up."""
    if request.sites.are_all:
        return
    for index, body in enumerate(request.body.bodies()):
        prefix = f"commands[{index}]." if request.body.is_many else ""
        check_body(request.sites, body.site_id, f"{prefix}site_id")


def _created(
    conn: Connection, trail: AuditTrail, options: CreationOptions, request: CreationRequest
) -> Created | CreatedMany:
    bodies = request.body.bodies()
    if not request.body.is_many:
        return create(conn, trail, bodies[0].to_request(), request.actor, options, request.makers)
    requests = _checked_each(bodies, CommandBody.to_request)
    policy = approval_policy.rules(conn, options.approval)
    held = _held_types(conn, policy, request, requests)

    def create_one(each: CommandRequest) -> Created:
        needs_approval = standard_type(each.command_type) in held
        return create(conn, trail, each, request.actor, options, request.makers, needs_approval)

    created = _checked_each(requests, create_one)
    return CreatedMany(created, len(created))


def _held_types(
    conn: Connection, policy: ApprovalRules, request: CreationRequest, requests: list[CommandRequest]
) -> set[str]:
    """The types whose commands in this request need approval, because together they concern many miners."""
    if policy.miners_from is None:
        return set()
    makers = [request.actor, *request.makers]
    lock_makers(conn, policy, makers)
    _checked_each(requests, lambda each: count_miners(conn, [each]))
    counts = count_miners(conn, requests)
    return {name for name, count in counts.items() if approval.is_needed(conn, policy, makers, name, count)}


def _checked_each(items: Sequence[T], work: Callable[[T], R]) -> list[R]:
    """Do the work for each item; an error names its place in the request."""
    results = []
    for index, item in enumerate(items):
        try:
            results.append(work(item))
        except BadInput as error:
            raise BadInput(f"commands[{index}].{error.field}", error.expected) from None
    return results
