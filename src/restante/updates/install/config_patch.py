"""Patches of an install config: change some items of a config and keep the others. Needs no database.

A config as a document is `{"installs": [item, …], "after_update_script": text or null}`. A patch is a JSON merge patch
(RFC 7396) of that document, with one addition: if `installs` is an object, its names are ids of items, and each value
is a merge patch of that item. `null` removes the item, and an id that the config does not have adds one at the end.

    {"installs": {"site": {"enabled": false}, "old": null}, "after_update_script": "systemctl reload nginx"}

The caller checks the result like any other config.
"""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.core.errors import BadInput

Document = dict[str, Any]
# Only SQLite stores NUL characters in text, and no shell reads them.
Script = Annotated[str, Meta(max_length=65536, pattern=r"^[^\x00]*\Z")]


class ConfigPatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A list in `installs` replaces all items; an object changes the items with these ids."""

    installs: list[dict[str, Any]] | dict[str, dict[str, Any] | None] | UnsetType = UNSET
    after_update_script: Script | UnsetType | None = UNSET

    @property
    def is_empty(self) -> bool:
        return isinstance(self.installs, UnsetType) and isinstance(self.after_update_script, UnsetType)


def patched(patch: ConfigPatch, installs: list[Document], script: str | None) -> tuple[list[Document], str | None]:
    """The items and the script after the patch."""
    if isinstance(patch.installs, list):
        installs = patch.installs
    elif isinstance(patch.installs, dict):
        installs = _patched_items(patch.installs, installs)
    return installs, script if isinstance(patch.after_update_script, UnsetType) else patch.after_update_script


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396: names with null are removed, objects are merged, everything else is replaced."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def _patched_items(changes: dict[str, dict[str, Any] | None], installs: list[Document]) -> list[Document]:
    items = {str(item.get("id")): item for item in installs}
    for item_id, change in changes.items():
        if change is None:
            items.pop(item_id, None)
        elif change.get("id", item_id) != item_id:
            raise BadInput(f"installs.{item_id}.id", "the id that names the item, or none")
        else:
            items[item_id] = {"id": item_id, **merged(items.get(item_id, {}), change)}
    return list(items.values())
