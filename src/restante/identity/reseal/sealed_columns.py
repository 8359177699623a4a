"""Every column whose values are sealed under the master key, and every purpose that a key is derived for.

A new column or purpose must be listed here: `restante keys reseal` changes and verifies what this list names.
"""

from dataclasses import dataclass
from typing import Any

from restante.database.connection import Row
from restante.database.queries import Query

# Keys that are derived from the master key. The modules that use them name their purposes themselves.
DERIVED_PURPOSES = (
    "audit",
    "device codes",
    "digest of command requests",
    "redis entries",
    "refresh tokens",
    "sign-in limits",
)


@dataclass(frozen=True, slots=True)
class SealedColumn:
    """`key`: the primary key of the table. `purpose`: of the sealed value; it may name a column in braces."""

    table: str
    column: str
    purpose: str
    key: tuple[str, ...] = ("id",)

    def page(self, *, is_first: bool) -> Query:
        """A query for the next sealed values, in the order of the key."""
        key = ", ".join(self.key)
        after = "" if is_first else f" AND ({key}) > ({', '.join(f':after_{name}' for name in self.key)})"
        columns = ", ".join(dict.fromkeys((*self.key, self.column, *self._named)))
        return Query(
            f"sealed_{self.table}_{self.column}",
            f"SELECT {columns} FROM {self.table} WHERE {self.column} IS NOT NULL{after} ORDER BY {key} LIMIT :limit",  # noqa: S608 — our own schema's names
        )

    def replace(self) -> Query:
        """A statement that replaces a value unless it was changed meanwhile. Its values: new, key …, old."""
        key = " AND ".join(f"{name} = :{name}" for name in self.key)
        return Query(
            f"reseal_{self.table}_{self.column}",
            f"UPDATE {self.table} SET {self.column} = :new_value WHERE {key} AND {self.column} = :old_value",  # noqa: S608
        )

    def key_of(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.key)

    def purpose_of(self, row: Row) -> str:
        return self.purpose.format(**{name: row[name] for name in self._named})

    @property
    def _named(self) -> tuple[str, ...]:
        return tuple(part.partition("}")[0] for part in self.purpose.split("{")[1:])


SEALED_COLUMNS = (
    SealedColumn("signing_keys", "sealed_key", "signing key {kid}"),
    SealedColumn("derived_keys", "sealed_key", "derived key {purpose}", ("purpose",)),
    SealedColumn("certificate_authorities", "sealed_key", "authority private key"),
    SealedColumn("cert_records", "sealed_data_key", "certificate data key"),
    SealedColumn("edge_devices", "hmac_secret", "collector hmac secret"),
    SealedColumn("edge_devices", "old_hmac_secret", "collector hmac secret"),
    SealedColumn("automation_rules", "sealed_params", "secret command parameters"),
    SealedColumn("miner_commands", "sealed_params", "secret command parameters"),
    SealedColumn("jobs", "sealed_params", "secret command parameters"),
    SealedColumn("rollouts", "sealed_params", "secret command parameters"),
    SealedColumn("event_signing_keys", "sealed_key", "event signing key {kid}"),
    SealedColumn("event_receivers", "sealed_authorization", "receiver authorization", ("client", "profile")),
)
