"""Templates of the console, and the small pieces of HTML that every page uses: times, states, numbers, charts.

Every value is escaped. A time is shown relative to now, with the absolute time on hover; `times.js` keeps it true. A
state is a word with a mark, whose shape says as much as its colour.
"""

import hashlib
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from restante.console.rendering.charts import span, sparkline
from restante.core.iso_time import iso_precise, parse_iso
from restante.web.templates import Templates

if TYPE_CHECKING:
    from markupsafe import Markup

CONSOLE = Path(__file__).parent.parent
ASSETS = CONSOLE / "assets"
ASSETS_PATH = "/console/assets/"

# What a state means, by its word: done, in progress, waiting, needs a look, failed, or no longer in use.
STATE_KINDS = {
    "ok": "ok", "active": "ok", "DELIVERED": "ok", "delivered": "ok", "issued": "ok", "ready": "ok",
    "succeeded": "ok", "acknowledged": "ok", "connected": "ok", "applied": "ok", "up": "ok", "wrapped": "ok",
    "received": "ok",
    "dispatched": "busy", "leased": "busy", "running": "busy", "acked": "busy", "fetched": "busy", "current": "ok",
    "PENDING": "wait", "pending": "wait", "pending_approval": "wait", "waiting": "wait", "scheduled": "wait",
    "queued": "wait", "published": "busy", "undeliverable": "bad", "done": "ok", "aborted": "off", "skipped": "off",
    "planned": "wait", "invited": "wait", "rolling_back": "busy", "rolled_back": "off",
    "warning": "warn", "behind": "warn",
    "suspended": "warn", "overdue": "warn", "expiring": "warn", "stuck": "warn", "paused": "warn",
    "FAILED": "bad", "failed": "bad", "problem": "bad", "expired": "bad", "errored": "bad", "away": "bad",
    "rejected": "bad", "broken": "bad",
    "revoked": "off", "cancelled": "off", "removed": "off", "superseded": "off", "never": "off", "off": "off",
}  # fmt: skip

# The shapes: a disc, a ring with a gap, a ring, a triangle, a cross in a square, a dash.
_MARKS = {
    "ok": '<circle cx="6" cy="6" r="4.5"/>',
    "busy": '<path d="M6 1.5a4.5 4.5 0 1 0 4.5 4.5h-2A2.5 2.5 0 1 1 6 3.5z"/>',
    "wait": '<path d="M6 1.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9zm0 1.6a2.9 2.9 0 1 0 0 5.8 2.9 2.9 0 0 0 0-5.8z"/>',
    "warn": '<path d="M6 1 11.5 10.8H.5z"/>',
    "bad": '<path d="M1.5 1.5h9v9h-9zm2 3L5 6 3.5 7.5l1 1L6 7l1.5 1.5 1-1L7 6l1.5-1.5-1-1L6 5 4.5 3.5z" '
    'fill-rule="evenodd"/>',
    "off": '<path d="M1.5 5h9v2h-9z"/>',
}

_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)", re.ASCII)
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_RELATIVE_DAYS_MAX = 60


class Rendering:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._templates = Templates(
            CONSOLE / "templates",
            {
                "when": self.when,
                "state": state,
                "mark": mark,
                "with_times": self.with_times,
                "number": number,
                "duration": duration,
                "pretty": pretty,
                "compact": compact,
                "asset": asset_url,
                "sparkline": sparkline,
                "span": span,
            },
        )

    def render(self, template: str, **values: Any) -> str:
        return self._templates.render(template, **values)

    def now_ms(self) -> int:
        return int(self._clock() * 1000)

    def when(self, value: int | str | None, none: str = "never") -> "Markup":
        """A time: milliseconds, or text in ISO 8601."""
        from markupsafe import Markup

        if value is None:
            return Markup('<span class="none">{}</span>').format(none)
        at_ms = parse_iso(value, "time") if isinstance(value, str) else value
        exact = iso_precise(at_ms)
        return Markup('<time datetime="{}" title="{}">{}</time>').format(
            exact, exact, relative_time(at_ms, self.now_ms())
        )

    def with_times(self, sentence: str) -> "Markup":
        """A sentence whose times are shown as every other time."""
        from markupsafe import Markup, escape

        parts = _ISO.split(sentence)
        shown = [self.when(part) if place % 2 else escape(part) for place, part in enumerate(parts)]
        # "at 5 min ago" would be wrong: "5 min ago".
        return Markup("").join(shown).replace(Markup(" at <time"), Markup(" <time"))


def relative_time(at_ms: int, now_ms: int) -> str:
    """`5 min ago`, `in 2 h`; the date if it is more than two months away. `times.js` has the same rules."""
    seconds = abs(now_ms - at_ms) // 1000
    if seconds < 5:
        return "just now"
    if seconds > _RELATIVE_DAYS_MAX * _DAY:
        return iso_precise(at_ms)[:10]
    text = duration(seconds)
    return f"{text} ago" if at_ms <= now_ms else f"in {text}"


def duration(seconds: float) -> str:
    """A length of time in its largest unit: `12 s`, `3 min`, `5 h`, `2 d`."""
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    raise AssertionError


def number(value: float | None, decimals: int | None = None) -> str:
    """A number with thin spaces between thousands; a dash if there is none. In a column, `decimals` are the same."""
    if value is None:
        return "–"
    if decimals is None:
        decimals = 0 if value == int(value) or abs(value) >= 100 else 1
    text = f"{value:,.{decimals}f}"
    return text.replace(",", "\u202f")


def state(word: str, kind: str | None = None, text: str | None = None) -> "Markup":
    """A state as word and mark. `text` is shown instead of the word."""
    from markupsafe import Markup

    shape = kind or STATE_KINDS.get(word, "off")
    shown = text if text is not None else word.replace("_", " ").lower()
    return Markup('<span class="state state-{}">{}{}</span>').format(shape, mark(shape), shown)


def mark(kind: str) -> "Markup":
    """The mark of a state alone, where words beside it say what it means."""
    from markupsafe import Markup

    size = 'viewBox="0 0 12 12" width="12" height="12"'
    svg = f'<svg class="mark mark-{kind}" {size} aria-hidden="true">{_MARKS[kind]}</svg>'
    return Markup(svg)  # noqa: S704 — nothing of it comes from outside


def pretty(value: Any) -> str:
    """JSON with indentation: of a JSON text, of raw JSON, or of a value."""
    if isinstance(value, msgspec.Raw):
        value = bytes(value)
    raw = (
        value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else msgspec.json.encode(value)
    )
    try:
        return msgspec.json.format(raw, indent=2).decode()
    except msgspec.DecodeError:
        return raw.decode(errors="replace")


def compact(value: Any) -> str:
    """JSON on one line: of raw JSON, or of a value."""
    return bytes(value).decode() if isinstance(value, msgspec.Raw) else msgspec.json.encode(value).decode()


@cache
def asset_url(name: str) -> str:
    """The address of an asset. It changes with the content, so browsers may keep it for ever."""
    return f"{ASSETS_PATH}{name}?v={hashlib.sha256((ASSETS / name).read_bytes()).hexdigest()[:12]}"
