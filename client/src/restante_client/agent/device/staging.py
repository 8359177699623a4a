"""The staged files of certificates and authorities.

    resources/certs/7/releases/<fingerprint>/private.key …
    resources/certs/7/current -> releases/<fingerprint>
    resources/cas/3/…

A release is written under a temporary name, flushed and renamed; then the link `current` is replaced by a rename. So a
reader sees the files of one release, and a crash leaves the old or the new one. The name of a release follows from its
content: staging the same again changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any, Optional

from restante_client.agent.device.materials import SECRET_FILES, Materials

FOLDERS = {"cert": "certs", "ca": "cas"}
CURRENT = "current"
_TEMPORARY = ".new-"


class Staging:
    def __init__(self, state: Path) -> None:
        self._folder = state / "resources"

    def current(self, kind: str, id: int) -> Path:
        """The folder of an object's staged files. `kind` is `cert` or `ca`."""
        return self._folder / FOLDERS[kind] / str(id) / CURRENT

    def is_staged(self, kind: str, id: int) -> bool:
        return self.current(kind, id).is_dir()

    def ids(self, kind: str) -> list[int]:
        folder = self._folder / FOLDERS[kind]
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def meta(self, kind: str, id: int) -> Optional[dict[str, Any]]:
        """The names, serial, validity and fingerprint of the staged object."""
        try:
            found: dict[str, Any] = json.loads((self.current(kind, id) / "meta.json").read_text("utf-8"))
            return found
        except FileNotFoundError:
            return None

    def stage(self, kind: str, id: int, materials: Materials, *, kept: int = 1) -> bool:
        """Make these files the current ones. False: they already are."""
        object_folder = self._folder / FOLDERS[kind] / str(id)
        releases = object_folder / "releases"
        release = releases / _release_name(materials)
        link = object_folder / CURRENT
        if link.is_symlink() and os.readlink(link) == f"releases/{release.name}" and release.is_dir():
            return False
        releases.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_temporary(releases)
        if not release.is_dir():
            temporary = releases / f"{_TEMPORARY}{release.name}"
            temporary.mkdir(mode=0o700)
            for name, content in materials.files.items():
                _write(temporary / name, content, 0o600 if name in SECRET_FILES else 0o644)
            _flush(temporary)
            temporary.rename(release)
            _flush(releases)
        new_link = object_folder / f"{_TEMPORARY}{CURRENT}"
        new_link.unlink() if new_link.is_symlink() else None
        new_link.symlink_to(f"releases/{release.name}")
        new_link.replace(link)
        _flush(object_folder)
        os.utime(release)
        _remove_old(releases, release, kept)
        return True

    def remove(self, kind: str, id: int) -> bool:
        """Remove the object and all its releases. False: there was none."""
        object_folder = self._folder / FOLDERS[kind] / str(id)
        if not object_folder.is_dir():
            return False
        shutil.rmtree(object_folder)
        _flush(object_folder.parent)
        return True


def _release_name(materials: Materials) -> str:
    """From the certificate and the key, not from the PKCS#12 file, which is different each time."""
    digest = hashlib.sha256(materials.fingerprint.encode())
    for name in sorted(materials.files):
        if name != "bundle.pfx":
            digest.update(name.encode() + b"\0" + hashlib.sha256(materials.files[name]).digest())
    return digest.hexdigest()[:32]


def _write(path: Path, content: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as writing:
        writing.write(content)
        writing.flush()
        os.fsync(writing.fileno())


def _flush(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_temporary(releases: Path) -> None:
    """Remove what a crash left."""
    for path in releases.glob(f"{_TEMPORARY}*"):
        shutil.rmtree(path)


def _remove_old(releases: Path, current: Path, kept: int) -> None:
    others = sorted((path for path in releases.iterdir() if path != current), key=lambda path: path.stat().st_mtime)
    for path in others[: max(0, len(others) - (kept - 1))]:
        shutil.rmtree(path)
