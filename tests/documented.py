"""Pages and the examples in them: how they are read, and how they are run as they stand.

An example is a `bash` block; the `text` block behind it is its answer, in which `…` stands for anything.
"""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.faults.server_process import PATIENCE_SECONDS, PROGRAM, environment, running

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
README = REPOSITORY / "README.md"

ADDRESS = "127.0.0.1:8080"
END_OF_EXAMPLE = "=== end of example ==="

_EXAMPLE = re.compile(r"^```bash\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    script: str
    answer: str

    @property
    def answer_lines(self) -> list[str]:
        return [line for line in self.answer.splitlines() if line != "…"]


def examples_of(page: Path) -> list[Example]:
    return [Example(script, answer) for script, answer in _EXAMPLE.findall(page.read_text())]


def blocks_of(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language, in the page's order."""
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```\n", page.read_text(), re.MULTILINE | re.DOTALL)
    return found


def says(wanted: str, line: str) -> bool:
    return re.fullmatch(".*?".join(map(re.escape, wanted.split("…"))), line) is not None


def missing_lines(wanted: list[str], output: str) -> list[str]:
    """The lines of the answer that the output does not have, in that order."""
    ahead = iter(output.splitlines())
    return [line for line in wanted if not any(says(line, had.rstrip("\r")) for had in ahead)]


def paste(folder: Path, text: str) -> str:
    """What bash answers to the text in a folder that has, as a checkout does, the program in .venv."""
    program = folder / ".venv" / "bin"
    if not program.exists():
        program.parent.mkdir(parents=True)
        program.symlink_to(Path(PROGRAM).parent)
    script = folder / "pasted.sh"
    script.write_text("set -uo pipefail\n" + text)
    done = subprocess.run(
        ["bash", script.name], cwd=folder, env=environment(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_examples(folder: Path, examples: list[Example], *flags: str) -> list[str]:
    """What each example answered, pasted one after another into one shell beside a fresh server."""
    with running(folder / "data", *flags) as server:
        text = "".join(f"{example.script}echo; echo '{END_OF_EXAMPLE}'\n" for example in examples)
        answered = paste(folder, text.replace(ADDRESS, f"127.0.0.1:{server.port}"))
    return answered.split(END_OF_EXAMPLE)[:-1]


def check_answers(folder: Path, page: Path, before: list[Example], *flags: str) -> None:
    """Run the page's examples behind those they go on from, and hold what comes against what the page says."""
    examples = examples_of(page)
    outputs = run_examples(folder, [*before, *examples], *flags)[len(before) :]
    assert len(outputs) == len(examples) > 3
    for example, output in zip(examples, outputs, strict=True):
        assert not missing_lines(example.answer_lines, output), f"{example.script}\nanswered\n{output}"


@contextmanager
def program_at_work(file: Path, *args: str) -> Iterator["subprocess.Popen[str]"]:
    """A Python program, as a process of its own; it is ended with the block, or when the test's patience is."""
    process = subprocess.Popen(
        [sys.executable, str(file), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=file.parent
    )
    patience = threading.Timer(PATIENCE_SECONDS, process.kill)
    patience.start()
    with process:
        try:
            yield process
        finally:
            patience.cancel()
            process.kill()


def next_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
