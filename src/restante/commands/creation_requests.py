"""Operators' requests for commands: one or many, all made in one transaction or none, once for an idempotency key."""

from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.commands.audit import AuditTrail
from restante.commands.creation import CommandWish, Created, CreationOptions, create
from restante.commands.wire import parse_iso
from restante.core.errors import BadInput
from restante.database.connection import Connection
from restante.web import idempotency
from restante.web.ask import INT64_MAX
from restante.web.idempotency import Answered, Asked

COMMANDS_MAX = 500

Id = Annotated[int, Meta(ge=1, le=INT64_MAX)]
_encoder = msgspec.json.Encoder()


class CommandFields(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a command may have. The miners are named by one of `miner_id`, `target_ids` and `all_miners`."""

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


class CommandBody(CommandFields, kw_only=True, forbid_unknown_fields=True):
    """One of many commands."""

    site_id: Id
    command_type: str

    def wish(self) -> CommandWish:
        fields = {name: getattr(self, name) for name in self.__struct_fields__ if name not in ("params", "expires_at")}
        return CommandWish(
            **fields,
            params=b"{}" if isinstance(self.params, UnsetType) else bytes(self.params),
            expires_at_ms=None if self.expires_at is None else parse_iso(self.expires_at, "expires_at"),
        )


class CreationBody(CommandFields, kw_only=True, forbid_unknown_fields=True):
    """One command, or many under `commands` and nothing beside it."""

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


def carry_out(conn: Connection, trail: AuditTrail, options: CreationOptions, request: CreationRequest) -> Answered:
    asked = Asked(request.actor, request.idempotency_key, _encoder.encode(request.body))
    return idempotency.once(conn, asked, lambda: _encoder.encode(_created(conn, trail, options, request)))


def _created(
    conn: Connection, trail: AuditTrail, options: CreationOptions, request: CreationRequest
) -> Created | CreatedMany:
    bodies = request.body.bodies()
    if not request.body.is_many:
        return create(conn, trail, bodies[0].wish(), request.actor, options)
    made = []
    for place, body in enumerate(bodies):
        try:
            made.append(create(conn, trail, body.wish(), request.actor, options))
        except BadInput as error:
            raise BadInput(f"commands[{place}].{error.field}", error.expected) from None
    return CreatedMany(made, len(made))
