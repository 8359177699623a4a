"""A progress bar on standard error, redrawn in place; without a terminal a line for each change of state."""

import shutil
import sys
from dataclasses import dataclass, field

import typer

BAR_WIDTH_MAX = 30
LINE_START = "\r\x1b[K"


@dataclass
class ProgressBar:
    """`state`: what goes on now, shown after the bar."""

    _last: str = field(default="", init=False)

    def draw(self, done: int, total: int, state: str, details: str) -> None:
        if not sys.stderr.isatty():
            if state != self._last:
                typer.echo(f"{state}: {details}", err=True)
                self._last = state
            return
        share = 1.0 if total == 0 else min(1.0, done / total)
        text = f" {share:4.0%} {state}, {details}"
        width = max(0, min(BAR_WIDTH_MAX, shutil.get_terminal_size().columns - len(text) - 1))
        filled = int(share * width)
        sys.stderr.write(f"{LINE_START}{'█' * filled}{'░' * (width - filled)}{text}")
        sys.stderr.flush()

    def close(self) -> None:
        """Leave the bar on its line, and go to the next one."""
        if sys.stderr.isatty():
            sys.stderr.write("\n")
