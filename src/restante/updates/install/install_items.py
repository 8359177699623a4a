"""The checks of install items. Needs no database.

An item is stored as it was sent, so that a device reads what its operator wrote; only `enabled: true` is added where
`enabled` is missing. A null field counts as missing. The agent decides whether an item makes sense (for example an exec
without a command). This module checks that every field has its type and bounds, that `from` and `to` have the same
length, that ids are unique, and that `depends_on` names items of the same config without a cycle. Every error names the
item and the field: `installs[3].to`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.core.decoding import INT64_MAX, convert
from restante.core.errors import BadInput

ITEMS_MAX = 500
INSTALLS_BYTES_MAX = 256 * 1024
TIMEOUT_MS_MAX = 24 * 60 * 60 * 1000
TYPES = ("copy", "exec", "import_ca")
OB_TYPES = ("cert", "ca")

ItemId = Annotated[str, Meta(min_length=1, max_length=128)]
ShortText = Annotated[str, Meta(max_length=255)]
# No path, argument or variable can hold a NUL byte on any platform.
Text = Annotated[str, Meta(max_length=8192, pattern=r"^[^\x00]*\Z")]
Path = Annotated[str, Meta(min_length=1, max_length=4096, pattern=r"^[^\x00]*\Z")]
Paths = Annotated[list[Path], Meta(max_length=100)]
Arguments = Annotated[list[Text], Meta(max_length=256)]

_VARIABLE_NAME = re.compile(r"[^=\x00]{1,128}")


class InstallItem(msgspec.Struct, forbid_unknown_fields=True):
    id: ItemId
    type: str
    enabled: bool | None = None
    continue_on_error: bool | None = None
    depends_on: Annotated[list[ItemId], Meta(max_length=ITEMS_MAX)] | None = None
    tags: Annotated[list[ShortText], Meta(max_length=100)] | None = None
    ob_type: str | None = None
    ob_id: Annotated[int, Meta(ge=1, le=INT64_MAX)] | None = None
    ob_name: ShortText | None = None
    from_: Paths | None = msgspec.field(name="from", default=None)
    to: Paths | None = None
    cmd: Text | Arguments | None = None
    cmd_argv: Arguments | None = None
    timeout_ms: Annotated[int, Meta(ge=0, le=TIMEOUT_MS_MAX)] | None = None
    run_as: Annotated[str, Meta(max_length=128, pattern=r"^[^\x00]*\Z")] | None = None
    env: Annotated[dict[str, Text], Meta(max_length=256)] | None = None
    verify: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """A certificate or authority that an item names. The caller must check its owner in the database."""

    field: str
    ob_type: str
    ob_id: int


@dataclass(frozen=True, slots=True)
class CheckedInstalls:
    """Valid items as the bytes that are stored, hashed and sent, and the objects that they refer to."""

    canonical_json: bytes
    references: list[ObjectReference]


def checked_installs(raw_items: list[dict[str, Any]]) -> CheckedInstalls:
    if len(raw_items) > ITEMS_MAX:
        raise BadInput("installs", f"at most {ITEMS_MAX} items")
    items = [_checked_item(raw, f"installs[{index}]") for index, raw in enumerate(raw_items)]
    _check_ids(items)
    _check_dependencies(items)
    stored = [raw if raw.get("enabled") is not None else {**raw, "enabled": True} for raw in raw_items]
    canonical = msgspec.json.encode(stored, order="sorted")
    if len(canonical) > INSTALLS_BYTES_MAX:
        raise BadInput("installs", f"at most {INSTALLS_BYTES_MAX} bytes of JSON")
    return CheckedInstalls(canonical, list(_references(items)))


def _checked_item(raw: dict[str, Any], path: str) -> InstallItem:
    item = convert(raw, InstallItem, path)
    if item.type not in TYPES:
        raise BadInput(f"{path}.type", f"one of {', '.join(TYPES)}")
    if item.ob_type is not None and item.ob_type not in OB_TYPES:
        raise BadInput(f"{path}.ob_type", f"one of {', '.join(OB_TYPES)}")
    if item.ob_id is not None and _ob_type(item) is None:
        raise BadInput(f"{path}.ob_type", "cert or ca, since ob_id is given")
    if len(item.from_ or ()) != len(item.to or ()):
        raise BadInput(f"{path}.to", f"as many paths as in from ({len(item.from_ or ())})")
    if not all(_VARIABLE_NAME.fullmatch(name) for name in item.env or ()):
        raise BadInput(f"{path}.env", "names of 1 to 128 characters, without = and NUL")
    return item


def _ob_type(item: InstallItem) -> str | None:
    return item.ob_type or ("ca" if item.type == "import_ca" else None)


def _check_ids(items: list[InstallItem]) -> None:
    seen: dict[str, int] = {}
    for index, item in enumerate(items):
        if seen.setdefault(item.id, index) != index:
            raise BadInput(f"installs[{index}].id", f"a unique id; installs[{seen[item.id]}] has it too")


def _check_dependencies(items: list[InstallItem]) -> None:
    index_of = {item.id: index for index, item in enumerate(items)}
    for index, item in enumerate(items):
        for needed in item.depends_on or ():
            if needed not in index_of:
                raise BadInput(f"installs[{index}].depends_on", f"ids of other items; {needed!r} is none")
    cycle = _find_cycle({item.id: list(item.depends_on or ()) for item in items})
    if cycle:
        raise BadInput(f"installs[{index_of[cycle[0]]}].depends_on", f"no cycle, but: {' → '.join(cycle)}")


def _find_cycle(needs: dict[str, list[str]]) -> list[str] | None:
    """A path from an item back to itself, or None. Not recursive: a chain may be as long as the list."""
    finished: set[str] = set()
    for start in needs:
        path: dict[str, None] = {}
        stack = [iter([start])]
        while stack:
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
                if path:
                    finished.add(path.popitem()[0])
            elif following in path:
                visited = list(path)
                return [*visited[visited.index(following) :], following]
            elif following not in finished:
                path[following] = None
                stack.append(iter(needs[following]))
    return None


def _references(items: list[InstallItem]) -> Iterator[ObjectReference]:
    for index, item in enumerate(items):
        ob_type = _ob_type(item)
        if item.ob_id is not None and ob_type is not None:
            yield ObjectReference(f"installs[{index}].ob_id", ob_type, item.ob_id)
