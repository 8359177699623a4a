"""Where the published vectors are."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "vectors"


def read(name: str) -> dict[str, Any] | None:
    file = FOLDER / name
    if not file.exists():
        return None
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found
