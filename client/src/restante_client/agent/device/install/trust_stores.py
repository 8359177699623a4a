"""The trust stores of the machine: the system's folder of authorities with its update command, and NSS databases.

An authority is one file `restante-ca-<id>.crt` and one NSS nickname `restante-ca-<id>`, so that adding and removing can
be repeated at any time.
"""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from restante_client.agent.device.config import Trust
from restante_client.agent.device.install import commands, files
from restante_client.agent.device.install.consent import AllowedPath


@dataclass(frozen=True)
class SystemStore:
    """`remove_command` is for a store whose update leaves links to removed files."""

    name: str
    folder: str
    update_command: tuple[str, ...]
    remove_command: tuple[str, ...] = ()


SYSTEM_STORES = {
    store.name: store
    for store in (
        SystemStore(
            "debian",
            "/usr/local/share/ca-certificates",
            ("update-ca-certificates",),
            ("update-ca-certificates", "--fresh"),
        ),
        SystemStore("rhel", "/etc/pki/ca-trust/source/anchors", ("update-ca-trust", "extract")),
        SystemStore("suse", "/etc/pki/trust/anchors", ("update-ca-certificates",)),
        SystemStore("arch", "/etc/ca-certificates/trust-source/anchors", ("trust", "extract-compat")),
    )
}


class TrustStoreError(Exception):
    """A trust store cannot be changed. The text names the field of the configuration, if that helps."""


class TrustStores:
    def __init__(self, config: Trust, search_path: str) -> None:
        self._config = config
        self._search_path = search_path

    def system_store(self) -> Optional[SystemStore]:
        """The store of this machine, with the folder and command of the configuration; None: `store` is `none`."""
        config = self._config
        found = SYSTEM_STORES.get(config.store)
        if config.store == "auto":
            found = next((store for store in SYSTEM_STORES.values() if os.path.isdir(store.folder)), None)
        folder = config.folder or (found.folder if found else None)
        command = tuple(config.update_command or (found.update_command if found else ()))
        removing = found.remove_command if found and not config.update_command else ()
        if config.store == "none" and config.folder is None:
            return None
        if folder is None or not command:
            raise TrustStoreError(
                "no known trust store here: set trust.folder and trust.update_command, or trust.store"
            )
        return SystemStore(found.name if found else "custom", folder, command, removing)

    def nss_databases(self) -> list[str]:
        """The NSS databases that exist now."""
        found = [path for pattern in self._config.nss_profiles for path in sorted(glob.glob(pattern))]
        return [path for path in found if os.path.exists(os.path.join(path, "cert9.db"))]

    def add(self, ca_id: int, pem: bytes) -> None:
        """Make the machine trust this authority."""
        store = self.system_store()
        if store is not None:
            target = _anchor(store, ca_id)
            known = files.read_state(target)
            mine = files.FileState(pem, 0o644, os.geteuid(), os.getegid())
            if known is None or (known.content, known.mode) != (pem, 0o644):
                files.write_state(target, mine)
            self._update(store.update_command)
        for database in self.nss_databases():
            self._delete_from(database, ca_id)
            self._certutil(database, "-A", "-a", "-t", "C,,", "-n", nickname(ca_id), stdin=pem)

    def has(self, ca_id: int, pem: bytes) -> bool:
        """Whether the system's store has exactly this authority."""
        store = self.system_store()
        known = None if store is None else files.read_state(_anchor(store, ca_id))
        return store is None or (known is not None and known.content == pem)

    def remove(self, ca_id: int) -> None:
        """Make the machine no longer trust this authority."""
        store = self.system_store()
        if store is not None:
            files.remove(_anchor(store, ca_id))
            # Also if the file was not there: a crash may have come between the removal and the update.
            self._update(store.remove_command or store.update_command)
        for database in self.nss_databases():
            self._delete_from(database, ca_id)

    def _update(self, command: tuple[str, ...]) -> None:
        done = commands.run(list(command), timeout_seconds=self._config.timeout_seconds, search_path=self._search_path)
        if not done.is_ok:
            raise TrustStoreError(f"{' '.join(command)}: {done.error}: {done.output[-300:]}")

    def _delete_from(self, database: str, ca_id: int) -> None:
        listed = self._run_certutil(database, "-L", "-n", nickname(ca_id))
        if listed.is_ok:
            self._certutil(database, "-D", "-n", nickname(ca_id))

    def _certutil(self, database: str, *arguments: str, stdin: bytes = b"") -> None:
        done = self._run_certutil(database, *arguments, stdin=stdin)
        if not done.is_ok:
            raise TrustStoreError(f"certutil {arguments[0]} in {database}: {done.error}: {done.output[-300:]}")

    def _run_certutil(self, database: str, *arguments: str, stdin: bytes = b"") -> commands.CommandResult:
        owner = Path(database).stat().st_uid
        argv = [self._config.certutil, arguments[0], "-d", f"sql:{database}", *arguments[1:]]
        return commands.run(
            argv,
            timeout_seconds=self._config.timeout_seconds,
            search_path=self._search_path,
            # The files of a person's browser must stay theirs.
            run_as=_user_name(owner) if owner != os.geteuid() else None,
            stdin=stdin,
        )


def nickname(ca_id: int) -> str:
    return f"restante-ca-{ca_id}"


def _anchor(store: SystemStore, ca_id: int) -> AllowedPath:
    return AllowedPath(store.folder, (f"{nickname(ca_id)}.crt",))


def _user_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise TrustStoreError(f"the owner of an NSS database (uid {uid}) is no user") from None
