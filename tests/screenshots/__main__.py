"""`make screenshots`: the pictures of README and docs, made from the world of the demo at a fixed moment.

    python -m tests.screenshots [--into docs/pictures] [--only overview,command] [--check]

`--check` makes them twice, each time with a new server, and compares them byte by byte.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.screenshots.pictures import take
from tests.screenshots.still_world import still_world

REPOSITORY = Path(__file__).parents[2]
PICTURES = REPOSITORY / "docs" / "pictures"


async def make(folder: Path, names: list[str]) -> dict[str, bytes]:
    """The pictures by the names of their files."""
    with tempfile.TemporaryDirectory(prefix="restante-still-") as data:
        async with still_world(Path(data)) as world:
            return {file.name: file.read_bytes() for file in await take(world, folder, names)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=PICTURES, help="the folder of the pictures")
    parser.add_argument("--only", default="", help="names of pictures, with commas between them")
    parser.add_argument("--check", action="store_true", help="make them twice and compare")
    given = parser.parse_args()
    names = [name for name in given.only.split(",") if name]
    given.into.mkdir(parents=True, exist_ok=True)
    made = asyncio.run(make(given.into, names))
    for name, content in made.items():
        sys.stdout.write(f"{given.into / name}: {len(content) // 1024} KiB\n")
    if not given.check:
        return 0
    with tempfile.TemporaryDirectory(prefix="restante-pictures-") as other:
        again = asyncio.run(make(Path(other), names))
    differing = sorted(name for name in made if made[name] != again.get(name))
    for name in differing:
        sys.stdout.write(f"{name} differs in the second run\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
