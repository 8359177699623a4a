"""Secret parameters: only the collector that carries the command out gets their values.

    request ──▶ params: {"pool_url": u, "pool_password": "[secret]"}  ──▶ operators, audit trail, exports
            └─▶ sealed_params: {"pool_password": p} under the master key ──▶ opened for the poll that gets the command

Decides how the parameters of a request are split. `CommandType.secret_params` says which are secret. Rows that an older
version stored in plain text are sealed once, when a server starts.

Invariant: no column but `sealed_params` has a secret value, and nothing but a poll's response shows one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from restante.commands.lifecycle.command_types import COMMAND_TYPES, TARGETS_PARAM, CommandType, normalised
from restante.commands.sites.collectors import SecretBox
from restante.core.commands.canonical import canonical_json
from restante.core.errors import BadInput
from restante.core.masking import MASK
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

BATCH_ROWS = 500
SEALING_LOCK = "sealing"
TYPES_WITH_SECRETS = frozenset(name for name, each in COMMAND_TYPES.items() if each.secret_params)

_decode = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True)
class SplitParams:
    """Parameters as they are stored: with masks, and the sealed values of those that are masked."""

    shown: dict[str, Any]
    sealed: bytes | None = None


def split(
    box: SecretBox, command_type: str, params: dict[str, Any], stored: SplitParams | None = None, field: str = "params"
) -> SplitParams:
    """Mask and seal the secret parameters of a checked request.

    A mask instead of a value stands for the value that is stored behind the same mask; without one it is refused.
    """
    shown, secrets = _masked(COMMAND_TYPES[command_type], params)
    if not secrets:
        return SplitParams(params)
    kept = [name for name, value in secrets.items() if MASK in value]
    if kept:
        known = box.open_params(stored.sealed) if stored is not None and stored.sealed is not None else {}
        for name in kept:
            if stored is None or name not in known or stored.shown.get(name) != secrets[name]:
                raise BadInput(f"{field}.{name}", "the value itself, not its mask")
            secrets[name] = known[name]
    return SplitParams(shown, box.seal_params(secrets))


def with_secrets(box: SecretBox, params: dict[str, Any], sealed: bytes | None) -> dict[str, Any]:
    """The parameters as the collector reads them. The order of the names stays the same."""
    return params if sealed is None else params | box.open_params(sealed)


def may_have_secrets(name: str) -> bool:
    """Whether this type, named in any way, has secret parameters."""
    return any(name in (each, *COMMAND_TYPES[each].aliases) for each in TYPES_WITH_SECRETS)


def masked_text(command_type: str, params: str) -> str:
    """The stored parameters as an operator may see them, also those that another version has just stored in plain
    text."""
    if command_type not in TYPES_WITH_SECRETS:
        return params
    shown, secrets = _masked(COMMAND_TYPES[command_type], _decode(params))
    return canonical_json(shown).decode() if secrets else params


def seal_stored(database: Database, box: SecretBox) -> int:
    """Seal what an older version stored in plain text; return the number of rows. Runs once for a database."""
    if database.read_now(_is_done):
        return 0
    sealed = 0
    for command_type in sorted(TYPES_WITH_SECRETS):
        after: int | None = 0
        while after is not None:
            count, after = database.write_now(_seal_commands, box, command_type, after)
            sealed += count
    return sealed + database.write_now(_finish, box)


def _is_done(conn: Connection) -> bool:
    return conn.one(SQL.is_done) is not None


def _seal_commands(conn: Connection, box: SecretBox, command_type: str, after: int) -> tuple[int, int | None]:
    """Seal the next commands. Return how many, and the id of the last one; None if there are no more."""
    conn.lock(SEALING_LOCK, 0)
    rows = conn.all(SQL.unsealed_commands, command_type=command_type, after=after, limit=BATCH_ROWS)
    changed = _sealed_rows(box, [(command_type, row["params"], row["id"]) for row in rows])
    conn.run_rows(SQL.seal_command, changed)
    return len(changed), rows[-1]["id"] if len(rows) == BATCH_ROWS else None


def _finish(conn: Connection, box: SecretBox) -> int:
    """Seal the rules, which are few, and record that all is sealed."""
    conn.lock(SEALING_LOCK, 0)
    rows = conn.all(SQL.unsealed_rules)
    changed = _sealed_rows(box, [(row["action_type"], row["action_parameters"], row["id"]) for row in rows])
    conn.run_rows(SQL.seal_rule, changed)
    conn.run(SQL.set_done)
    return len(changed)


def _sealed_rows(box: SecretBox, rows: list[tuple[str, str, int]]) -> list[tuple[str, bytes | None, int]]:
    """The new columns and the id of each row that has a secret parameter."""
    found = [_sealed_row(box, *row) for row in rows if row[0] in TYPES_WITH_SECRETS]
    return [each for each in found if each is not None]


def _sealed_row(box: SecretBox, command_type: str, stored: str, row_id: int) -> tuple[str, bytes | None, int] | None:
    declared, params = COMMAND_TYPES[command_type], _decode(stored)
    targets = {name: params.pop(name) for name in (TARGETS_PARAM,) if name in params}
    try:
        shown, secrets = _masked(declared, normalised(declared, params, "params"))
        sealed = box.seal_params(secrets) if secrets else None
    except BadInput:
        # No collector gets these parameters: a claim cancels the command. Their secrets need not be kept.
        shown, secrets = _masked(declared, params)
        sealed = None
    return (canonical_json({**shown, **targets}).decode(), sealed, row_id) if secrets else None


def _masked(declared: CommandType, params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters with masks, and the values behind the masks. Any accepted spelling of a name is masked."""
    names = declared.param_names
    shown: dict[str, Any] = {}
    secrets: dict[str, Any] = {}
    for name, value in params.items():
        shown[name] = value
        if names is not None and name == names.list_name and isinstance(value, list):
            inner = [_masked(declared, each) if isinstance(each, dict) else (each, {}) for each in value]
            shown[name] = [each for each, _ in inner]
            secrets |= {f"{name}[{index}]": found for index, (_, found) in enumerate(inner) if found}
        elif isinstance(value, str):
            mask = declared.secret_params.get(name if names is None else names.spellings.get(name, name))
            masked = value if mask is None else mask(value)
            if mask is not None and (masked != value or MASK in value):
                shown[name], secrets[name] = masked, value
    return shown, secrets
