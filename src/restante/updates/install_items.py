"""What an install item may look like, decided without a database.

An item is kept as it was sent, so that a device reads what its operator wrote; the one thing added is
`enabled: true` where it says nothing about that. A field that is null counts as absent. Whether an item
makes sense to its device (an exec without a command, say) is the agent's to judge; what is judged here is
that every field has its type and bounds, that `from` and `to` pair up, that ids are unique, and that
`depends_on` names items of the same config and leads nowhere in a circle. Every refusal names the item and
the field: `installs[3].to`.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from restante.core.errors import BadInput
from restante.web.ask import INT64_MAX, convert

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


class ObjectReference(NamedTuple):
    """A certificate or authority that an item names; whose it is, the database knows."""

    field: str
    ob_type: str
    ob_id: int


class CheckedInstalls(NamedTuple):
    """Items that hold up, as the bytes that are stored, hashed and sent, and what they refer to."""

    canonical_json: bytes
    references: list[ObjectReference]


def checked_installs(sent: list[dict[str, Any]]) -> CheckedInstalls:
    if len(sent) > ITEMS_MAX:
        raise BadInput("installs", f"at most {ITEMS_MAX} items")
    items = [_checked_item(raw, f"installs[{place}]") for place, raw in enumerate(sent)]
    _check_ids(items)
    _check_dependencies(items)
    kept = [raw if raw.get("enabled") is not None else {**raw, "enabled": True} for raw in sent]
    canonical = msgspec.json.encode(kept, order="sorted")
    if len(canonical) > INSTALLS_BYTES_MAX:
        raise BadInput("installs", f"at most {INSTALLS_BYTES_MAX} bytes of JSON")
    return CheckedInstalls(canonical, list(_references(items)))


def _checked_item(raw: dict[str, Any], where: str) -> InstallItem:
    item = convert(raw, InstallItem, where)
    if item.type not in TYPES:
        raise BadInput(f"{where}.type", f"one of {', '.join(TYPES)}")
    if item.ob_type is not None and item.ob_type not in OB_TYPES:
        raise BadInput(f"{where}.ob_type", f"one of {', '.join(OB_TYPES)}")
    if item.ob_id is not None and _ob_type(item) is None:
        raise BadInput(f"{where}.ob_type", "cert or ca, since ob_id is given")
    if len(item.from_ or ()) != len(item.to or ()):
        raise BadInput(f"{where}.to", f"as many paths as in from ({len(item.from_ or ())})")
    if not all(_VARIABLE_NAME.fullmatch(name) for name in item.env or ()):
        raise BadInput(f"{where}.env", "names of 1 to 128 characters, without = and NUL")
    return item


def _ob_type(item: InstallItem) -> str | None:
    return item.ob_type or ("ca" if item.type == "import_ca" else None)


def _check_ids(items: list[InstallItem]) -> None:
    seen: dict[str, int] = {}
    for place, item in enumerate(items):
        if seen.setdefault(item.id, place) != place:
            raise BadInput(f"installs[{place}].id", f"an id of its own; installs[{seen[item.id]}] has it too")


def _check_dependencies(items: list[InstallItem]) -> None:
    place_of = {item.id: place for place, item in enumerate(items)}
    for place, item in enumerate(items):
        for needed in item.depends_on or ():
            if needed not in place_of:
                raise BadInput(f"installs[{place}].depends_on", f"ids of other items; {needed!r} is none")
    cycle = _find_cycle({item.id: list(item.depends_on or ()) for item in items})
    if cycle:
        raise BadInput(f"installs[{place_of[cycle[0]]}].depends_on", f"no cycle, but: {' → '.join(cycle)}")


def _find_cycle(needs: dict[str, list[str]]) -> list[str] | None:
    """A way from an item back to itself, or None; not recursive, as a chain may be as long as the list."""
    finished: set[str] = set()
    for start in needs:
        way: dict[str, None] = {}
        ahead = [iter([start])]
        while ahead:
            following = next(ahead[-1], None)
            if following is None:
                ahead.pop()
                if way:
                    finished.add(way.popitem()[0])
            elif following in way:
                passed = list(way)
                return [*passed[passed.index(following) :], following]
            elif following not in finished:
                way[following] = None
                ahead.append(iter(needs[following]))
    return None


def _references(items: list[InstallItem]) -> Iterator[ObjectReference]:
    for place, item in enumerate(items):
        ob_type = _ob_type(item)
        if item.ob_id is not None and ob_type is not None:
            yield ObjectReference(f"installs[{place}].ob_id", ob_type, item.ob_id)
