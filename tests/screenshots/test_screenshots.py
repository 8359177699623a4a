"""The pictures of the documentation: complete, small, and the same bytes in every run."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.server_process import environment
from tests.screenshots.pictures import PICTURES

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
FILES = {f"{picture.name}{suffix}.png" for picture in PICTURES for suffix in ("", *(["-dark"] * picture.has_dark))}
BYTES_MAX = 1_500_000


def test_every_picture_is_there_and_shown_on_a_page() -> None:
    pages = "".join((ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/console.md"))
    assert {path.name for path in FOLDER.glob("*.png")} == FILES
    assert [name for name in sorted(FILES) if f"pictures/{name}" not in pages] == []


def test_pictures_are_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.glob("*.png")) < BYTES_MAX


@pytest.mark.slow
@pytest.mark.embedded
def test_two_runs_make_the_same_pictures(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.screenshots", "--into", str(tmp_path), "--check"]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in tmp_path.iterdir()} == FILES
