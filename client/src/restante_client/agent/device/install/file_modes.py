"""Which mode and owner a written file gets.

The owner's rules (`[[files]]`) count first. Otherwise a file that exists keeps its mode and owner, and a new one is
0600 for private keys and 0644 for others. A private key is never readable by everybody.
"""

from __future__ import annotations

import fnmatch
import grp
import os
import pwd
from collections.abc import Sequence
from typing import Optional

from restante_client.agent.device.config import FileRule
from restante_client.agent.device.install.files import FileState
from restante_client.agent.device.materials import SECRET_FILES


def wanted_state(
    rules: Sequence[FileRule], target: str, source: str, content: bytes, known: Optional[FileState]
) -> FileState:
    """The state that the target must have. `source` is the name that the item copies."""
    is_secret = source.rsplit("/", 1)[-1] in SECRET_FILES
    rule = next((rule for rule in rules if fnmatch.fnmatchcase(target, rule.path)), FileRule(path=target))
    kept = None if known is None or known.is_link else known
    mode = int(rule.mode, 8) if rule.mode else kept.mode if kept else 0o600 if is_secret else 0o644
    uid = _uid(rule.owner) if rule.owner else kept.uid if kept else os.geteuid()
    gid = _gid(rule.group) if rule.group else kept.gid if kept else os.getegid()
    return FileState(content, mode & ~0o007 if is_secret else mode, uid, gid)


def _uid(name: str) -> int:
    try:
        return int(name) if name.isdigit() else pwd.getpwnam(name).pw_uid
    except KeyError:
        raise LookupError(f"files.owner: no user {name!r}") from None


def _gid(name: str) -> int:
    try:
        return int(name) if name.isdigit() else grp.getgrnam(name).gr_gid
    except KeyError:
        raise LookupError(f"files.group: no group {name!r}") from None
