"""Read the pages of the documentation and run their examples unchanged.

An example is a `bash` block. The `text` block after it is its expected output, in which `…` stands for any text.
"""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.faults.server_process import PROGRAM, TIMEOUT_SECONDS, environment, running_server

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
README = REPOSITORY / "README.md"

ADDRESS = "127.0.0.1:8080"
END_OF_EXAMPLE = "=== end of example ==="

_EXAMPLE = re.compile(r"^```bash\n(.*?)^```\n(?:```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    script: str
    output: str

    @property
    def output_lines(self) -> list[str]:
        return [line for line in self.output.splitlines() if line != "…"]


def examples_of(page: Path) -> list[Example]:
    return [Example(script, output) for script, output in _EXAMPLE.findall(page.read_text())]


def blocks_of(page: Path, language: str) -> list[str]:
    """Return the fenced blocks of a language, in the order of the page."""
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```\n", page.read_text(), re.MULTILINE | re.DOTALL)
    return found


def matches(expected: str, line: str) -> bool:
    return re.fullmatch(".*?".join(map(re.escape, expected.split("…"))), line) is not None


def missing_lines(expected: list[str], output: str) -> list[str]:
    """Return the expected lines that the output does not contain, in that order."""
    remaining = iter(output.splitlines())
    return [line for line in expected if not any(matches(line, actual.rstrip("\r")) for actual in remaining)]


def run_script(folder: Path, text: str) -> str:
    """Run bash on the text and return its output. The folder has the program in .venv, like a checkout."""
    program = folder / ".venv" / "bin"
    if not program.exists():
        program.parent.mkdir(parents=True)
        program.symlink_to(Path(PROGRAM).parent)
    script = folder / "script.sh"
    script.write_text("set -uo pipefail\n" + text)
    process = subprocess.run(
        ["bash", script.name], cwd=folder, env=environment(), capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def run_examples(folder: Path, examples: list[Example], *flags: str) -> list[str]:
    """Run the examples one after another in one shell, beside a new server, and return the output of each."""
    with running_server(folder / "data", *flags) as server:
        text = "".join(f"{example.script}echo; echo '{END_OF_EXAMPLE}'\n" for example in examples)
        output = run_script(folder, text.replace(ADDRESS, f"127.0.0.1:{server.port}"))
    return output.split(END_OF_EXAMPLE)[:-1]


def check_examples(folder: Path, page: Path, before: list[Example], *flags: str) -> None:
    """Run the examples of the page after those in `before`, and compare their output with the page."""
    examples = examples_of(page)
    outputs = run_examples(folder, [*before, *examples], *flags)[len(before) :]
    assert len(outputs) == len(examples) > 3
    for example, output in zip(examples, outputs, strict=True):
        assert not missing_lines(example.output_lines, output), f"{example.script}\nprinted\n{output}"


@contextmanager
def running_program(file: Path, *args: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a Python program as a separate process; kill it at the end of the block, or after a time limit."""
    process = subprocess.Popen(
        [sys.executable, str(file), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=file.parent
    )
    time_limit = threading.Timer(TIMEOUT_SECONDS, process.kill)
    time_limit.start()
    with process:
        try:
            yield process
        finally:
            time_limit.cancel()
            process.kill()


def next_line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
