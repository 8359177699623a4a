"""The order of a config's items, which items an object concerns, and what is wrong with an item by itself."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import msgspec

from restante_client.device.models import InstallConfig, InstallItem, without_nulls
from restante_client.errors import VerificationFailed

OB_TYPES = ("cert", "ca")
VERIFY_TYPES = ("command", "file_hash", "cert_fingerprint")


def checked_items(config: InstallConfig) -> list[InstallItem]:
    """The items of exactly the text that the hash covers, in the order in which they must run."""
    text = config.installs_json
    if text and config.installs_hash is not None:
        found = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        if found != config.installs_hash:
            raise VerificationFailed(f"version {config.version}: the items do not have the hash that the server states")
    if not text:
        return ordered(config.installs)
    try:
        items = msgspec.convert([without_nulls(item) for item in msgspec.json.decode(text)], list[InstallItem])
    except (msgspec.DecodeError, TypeError, AttributeError) as error:
        raise VerificationFailed(f"version {config.version}: the items cannot be read: {error}") from None
    return ordered(items)


def ordered(items: Sequence[InstallItem]) -> list[InstallItem]:
    """Dependencies first, otherwise the order of the list. Raises `VerificationFailed` for a cycle or a wrong id."""
    by_id = {item.id: item for item in items}
    if len(by_id) != len(items):
        raise VerificationFailed("two items have the same id")
    done: dict[str, InstallItem] = {}
    waiting = list(items)
    while waiting:
        ready = [item for item in waiting if all(need in done for need in item.depends_on)]
        if not ready:
            raise VerificationFailed(f"depends_on of {waiting[0].id!r} names a missing item or makes a cycle")
        # One at a time, so that an item comes as early as its place in the list allows.
        done[ready[0].id] = ready[0]
        waiting.remove(ready[0])
    return list(done.values())


def object_of(item: InstallItem) -> Optional[tuple[str, int]]:
    """The certificate or authority of an item: ("cert", 7)."""
    if item.ob_id is None:
        return None
    return item.ob_type or ("ca" if item.type == "import_ca" else ""), item.ob_id


def objects_of(items: Sequence[InstallItem]) -> list[tuple[str, int]]:
    """The objects that enabled items need, each once."""
    found = (object_of(item) for item in items if item.enabled)
    return list(dict.fromkeys(each for each in found if each is not None))


def affected(items: Sequence[InstallItem], changed: tuple[str, int]) -> list[InstallItem]:
    """The items that use an object, and all that depend on them, in the given order."""
    chosen: dict[str, InstallItem] = {}
    for item in items:
        if object_of(item) == changed or any(need in chosen for need in item.depends_on):
            chosen[item.id] = item
    return list(chosen.values())


def problem_of(item: InstallItem) -> Optional[str]:
    """Why an item makes no sense, or None."""
    return next(_problems(item), None)


def _problems(item: InstallItem) -> Iterator[str]:
    found = object_of(item)
    if item.type not in ("copy", "exec", "import_ca"):
        yield f"the type {item.type!r} is not known"
    if found is not None and found[0] not in OB_TYPES:
        yield f"ob_type: expected cert or ca, not {found[0]!r}"
    if item.type == "exec" and not (item.cmd_argv or item.cmd):
        yield "cmd: an exec item needs a command"
    if item.type == "import_ca" and (found is None or found[0] != "ca"):
        yield "ob_id: an import_ca item needs an authority"
    if item.type == "copy" and not item.sources:
        yield "from: a copy item needs at least one file"
    if len(item.sources) != len(item.targets) and not (item.type == "import_ca" and not item.targets):
        yield "to: expected as many paths as in from"
    for source in item.sources:
        if found is not None and ("/" in source or source in ("", ".", "..")):
            yield f"from: {source!r} is no name of a staged file"
    yield from _verify_problems(item.verify)


def _verify_problems(verify: dict[str, Any]) -> Iterator[str]:
    kind = verify.get("type", "command") if verify else "command"
    if kind not in VERIFY_TYPES:
        yield f"verify.type: expected one of {', '.join(VERIFY_TYPES)}, not {kind!r}"
    if verify and kind == "command":
        command = verify.get("cmd_argv") or verify.get("cmd")
        is_list = isinstance(command, list) and all(isinstance(word, str) for word in command)
        if not command or not (isinstance(command, str) or is_list):
            yield "verify.cmd: expected a text or a list of texts"
    if kind == "file_hash" and not isinstance(verify.get("sha256"), str):
        yield "verify.sha256: expected the SHA-256 of the file in hexadecimal"
