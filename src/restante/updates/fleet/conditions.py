"""Filters as SQL: which index a selection reads, and which conditions it checks on the rows that the index yields.

Every field of a filter has an index. A selection reads one of them, in order, and checks the other fields on each row.
Fields with equal values (a tag, a platform) are read in the order of device ids; ranges (overdue, last seen, a name's
beginning) in the order of their column, so that a page never sorts.

Names of tables and columns are this module's own; values reach the database as parameters only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from restante.identity.grants import AllowedIds
from restante.updates.fleet.device_filter import DeviceFilter, time_ms

# The states of an install config that the words of the filter stand for.
STATES = {
    "behind": ("behind", "failed"),
    "current": ("fetched", "applied"),
    "fetched": ("fetched",),
    "applied": ("applied",),
    "failed": ("failed",),
}
# Greater than every character of a name.
_AFTER_ALL = "\U0010ffff"

Parameters = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Index:
    """An index that yields devices in an order: by id alone, or by `key` and id.

    `streams`: an index by id alone may be read for several values; their ids are merged. No device is in two streams.
    """

    name: str
    table: str
    id_column: str
    where: str
    streams: tuple[Parameters, ...] = ({},)
    key: str | None = None
    is_descending: bool = False

    def accepts(self, key: int | str | None) -> bool:
        """Whether the key of a place can be one of this index."""
        return isinstance(key, type(None) if self.key is None else str if self.key == "name" else int)


@dataclass(frozen=True, slots=True)
class Condition:
    """A field of a filter: `text` checks it on a row of device (d), presence (p) and install config (c).

    `is_exact_index`: every device that the index yields meets the condition, which need not be checked again.
    """

    text: str
    parameters: Parameters = field(default_factory=dict)
    index: Index | None = None
    is_exact_index: bool = True


ALL_DEVICES = Index("id", "user_devices", "id", "TRUE")


def conditions_of(filters: Sequence[DeviceFilter], users: AllowedIds, now_ms: int) -> list[Condition]:
    """The conditions of all filters together, those with the index to prefer first."""
    found = [] if users.ids is None else [_users("allowed", sorted(int(user_id) for user_id in users.ids))]
    for place, each in enumerate(filters):
        found.extend(_conditions(each, f"_{place}", now_ms))
    return found


def _conditions(wanted: DeviceFilter, suffix: str, now_ms: int) -> Iterator[Condition]:
    if wanted.user_id is not None:
        yield _users("user" + suffix, [wanted.user_id])
    for number, tag in enumerate(wanted.tags):
        yield _tag(f"tag{suffix}_{number}", tag)
    if wanted.config_version is not None:
        yield _config_version("config" + suffix, wanted.config_version)
    yield from _ranges(wanted, suffix, now_ms)
    for column in ("agent_version", "platform"):
        value = getattr(wanted, column)
        if value is not None:
            yield _equal(column, column + suffix, value)
    if wanted.status is not None:
        yield _status(wanted.status)


def _ranges(wanted: DeviceFilter, suffix: str, now_ms: int) -> Iterator[Condition]:
    if wanted.overdue is not None:
        yield _overdue("overdue" + suffix, now_ms, is_wanted=wanted.overdue)
    if wanted.certificate_expires_before is not None:
        until = time_ms(wanted.certificate_expires_before, "certificate_expires_before", now_ms, is_future=True)
        yield _range("certificate_expires_at", "user_devices", "id", "d", f"expiry{suffix}", "<", until)
    if wanted.seen_before is not None:
        before = time_ms(wanted.seen_before, "seen_before", now_ms)
        yield _range("last_seen_at", "device_presence", "device_id", "p", f"before{suffix}", "<", before)
    if wanted.seen_after is not None:
        after = time_ms(wanted.seen_after, "seen_after", now_ms)
        yield _range("last_seen_at", "device_presence", "device_id", "p", f"after{suffix}", ">=", after)
    if wanted.name is not None:
        yield _name("name" + suffix, wanted.name)


def _users(name: str, user_ids: list[int]) -> Condition:
    streams = tuple({name: user_id} for user_id in user_ids)
    index = Index(f"user:{name}", "user_devices", "id", f"user_id = :{name}", streams)
    listed = ", ".join(str(user_id) for user_id in user_ids) or "NULL"
    return Condition(f"d.user_id IN ({listed})", {}, index)


def _tag(name: str, tag: str) -> Condition:
    tagged = f"kind = 'device' AND tag = :{name}"
    text = f"EXISTS (SELECT 1 FROM tags WHERE kind = 'device' AND resource_id = d.id AND tag = :{name})"  # noqa: S608
    return Condition(text, {name: tag}, Index(name, "tags", "resource_id", tagged, ({name: tag},)))


def _config_version(name: str, version: int | str) -> Condition:
    table, device = "device_install_configs", "user_device_id"
    if version in STATES:
        states = STATES[str(version)]
        index = Index(name, table, device, f"state = :{name}", tuple({name: state} for state in states))
        listed = ", ".join(f"'{state}'" for state in states)
        return Condition(f"c.state IN ({listed})", {}, index)
    number = {name: int(version)}
    return Condition(
        f"c.fetched_version = :{name}", number, Index(name, table, device, f"fetched_version = :{name}", (number,))
    )


def _equal(column: str, name: str, value: str) -> Condition:
    parameters = {name: value}
    index = Index(name, "user_devices", "id", f"{column} = :{name}", (parameters,))
    return Condition(f"d.{column} = :{name}", parameters, index)


def _status(status: str) -> Condition:
    is_active = "revoked_at IS NULL" if status == "active" else "revoked_at IS NOT NULL"
    return Condition(f"d.{is_active}", {}, Index(f"status_{status}", "user_devices", "id", is_active))


def _overdue(name: str, now_ms: int, *, is_wanted: bool) -> Condition:
    parameters = {name: now_ms}
    is_overdue = f"p.overdue_at < :{name} AND d.revoked_at IS NULL"
    if not is_wanted:
        return Condition(f"NOT COALESCE({is_overdue}, FALSE)", parameters)
    index = Index(name, "device_presence", "device_id", f"overdue_at < :{name}", (parameters,), "overdue_at")
    # The index may hold a device that was revoked just after its last poll.
    return Condition(is_overdue, parameters, index, is_exact_index=False)


def _range(column: str, table: str, id_column: str, alias: str, name: str, sign: str, value: int) -> Condition:
    parameters = {name: value}
    where = f"{column} {sign} :{name}"
    # The newest first, where the filter selects the newest.
    index = Index(name, table, id_column, where, (parameters,), column, is_descending=sign == ">=")
    return Condition(f"{alias}.{where}", parameters, index)


def _name(name: str, prefix: str) -> Condition:
    parameters = {f"{name}_from": prefix, f"{name}_to": prefix + _AFTER_ALL}
    where = f"name >= :{name}_from AND {{0}}name < :{name}_to"
    index = Index(name, "user_devices", "id", where.format(""), (parameters,), "name")
    return Condition("d." + where.format("d."), parameters, index)
