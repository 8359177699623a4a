"""The state folder: use from several threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from restante_client.state import StateFolder


def test_threads_share_a_state_folder(tmp_path: Path) -> None:
    state = StateFolder(tmp_path)

    def use(number: int) -> None:
        name = f"entry {number % 3}"
        state.write(name, b"value")
        assert state.read(name) == b"value"

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(use, range(200)))
    state.close()
