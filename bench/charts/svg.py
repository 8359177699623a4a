"""A small SVG writer: bar charts and line charts with a caption, readable on light and on dark pages.

The colours are CSS variables with a second set for `prefers-color-scheme: dark`. A chart states its title and its
figures as text for people who do not see it. Knows nothing about what is drawn.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 760
_LABEL_WIDTH, _VALUE_WIDTH = 220, 110
_BAR, _GAP = 20, 12
_CAPTION_LINE = 16
_CAPTION_CHARACTERS = 118

_STYLE = """
  svg { --back: #ffffff; --text: #1f2933; --soft: #52606d; --grid: #d9dee4; --own: #1d4ed8; --other: #94a3b8;
        --b: #b45309; --c: #047857; --d: #7c3aed; --e: #be123c; }
  @media (prefers-color-scheme: dark) {
    svg { --back: #0d1117; --text: #e6edf3; --soft: #9aa7b4; --grid: #30363d; --own: #60a5fa; --other: #64748b;
          --b: #f59e0b; --c: #34d399; --d: #a78bfa; --e: #fb7185; } }
  text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--text); }
  .title { font-weight: 600; font-size: 16px; } .soft { fill: var(--soft); }
  .caption { fill: var(--soft); font-size: 11px; }
  .grid { stroke: var(--grid); stroke-width: 1; }
"""
_COLOURS = ("own", "b", "c", "d", "e", "other")


@dataclass(frozen=True, slots=True)
class Bar:
    """`note`: a short text under the label. `is_own`: drawn in the first colour."""

    label: str
    value: float
    note: str = ""
    is_own: bool = False


def bar_chart(title: str, unit: str, bars: Sequence[Bar], caption: Sequence[str]) -> str:
    """Horizontal bars, the longest value over the whole width."""
    most = max(bar.value for bar in bars)
    span = WIDTH - _LABEL_WIDTH - _VALUE_WIDTH
    parts, y = [], 56
    for bar in bars:
        width = max(1.0, bar.value / most * span)
        colour = "own" if bar.is_own else "other"
        parts.append(_text(_LABEL_WIDTH - 10, y + 15, bar.label, "end"))
        parts.append(
            f'<rect x="{_LABEL_WIDTH}" y="{y}" width="{width:.1f}" height="{_BAR}" rx="2" fill="var(--{colour})"/>'
        )
        parts.append(_text(_LABEL_WIDTH + width + 8, y + 15, f"{_number(bar.value)} {unit}"))
        y += _BAR
        for line in _wrapped([bar.note], 84) if bar.note else []:
            parts.append(_text(_LABEL_WIDTH, y + 13, line, css="caption"))
            y += 15
        y += _GAP
    described = "; ".join(f"{bar.label}: {_number(bar.value)} {unit}" for bar in bars)
    return _document(title, described, parts, y, caption)


def line_charts(
    title: str, panels: Mapping[str, Mapping[str, Mapping[int, float]]], caption: Sequence[str], unit: str
) -> str:
    """Panels side by side, each with up to six lines by name over a logarithmic axis of whole numbers."""
    gap, top, height = 56, 84, 190
    width = (WIDTH - 20 - gap * len(panels)) / len(panels)
    parts, described = [_text(20, 62, unit, css="soft")], []
    has_legend = any(len(lines) > 1 for lines in panels.values())
    for index, (axis, lines) in enumerate(panels.items()):
        left = 10 + gap + index * (width + gap)
        parts += _panel(axis, lines, left, top, width, height)
        parts += _legend(list(lines), left, top + height + 52) if has_legend else []
        described += [
            f"{name}, {axis}: " + ", ".join(f"{x:,}: {_number(y)} {unit}" for x, y in points.items())
            for name, points in lines.items()
        ]
    rows = max(len(lines) for lines in panels.values()) if has_legend else 0
    return _document(title, "; ".join(described), parts, top + height + 48 + 20 * rows, caption)


def _legend(names: Sequence[str], left: float, top: float) -> list[str]:
    parts = []
    for index, name in enumerate(names):
        y = top + 20 * index
        parts.append(
            f'<rect x="{left:.1f}" y="{y:.1f}" width="12" height="12" rx="2" fill="var(--{_COLOURS[index]})"/>'
        )
        parts.append(_text(left + 18, y + 11, name))
    return parts


def _panel(
    axis: str,
    lines: Mapping[str, Mapping[int, float]],
    left: float,
    top: float,
    width: float,
    height: float,
) -> list[str]:
    counts = sorted({count for points in lines.values() for count in points})
    most = _round_up(max(value for points in lines.values() for value in points.values()))
    low, high = math.log(counts[0]), math.log(counts[-1])

    def x_of(count: int) -> float:
        return left + (width / 2 if high == low else (math.log(count) - low) / (high - low) * width)

    def y_of(value: float) -> float:
        return top + height - value / most * height

    parts = []
    for step in range(5):
        value = most * step / 4
        parts.append(
            f'<line class="grid" x1="{left}" x2="{left + width}" y1="{y_of(value):.1f}" y2="{y_of(value):.1f}"/>'
        )
        parts.append(_text(left - 6, y_of(value) + 4, _short(value), "end", "caption"))
    for count in counts:
        parts.append(_text(x_of(count), top + height + 16, _short(count), "middle", "caption"))
    parts.append(_text(left + width / 2, top + height + 34, axis, "middle", "soft"))
    for colour, points in zip(_COLOURS, lines.values(), strict=False):
        path = " ".join(f"{x_of(count):.1f},{y_of(value):.1f}" for count, value in sorted(points.items()))
        parts.append(f'<polyline points="{path}" fill="none" stroke="var(--{colour})" stroke-width="2"/>')
        parts += [
            f'<circle cx="{x_of(count):.1f}" cy="{y_of(value):.1f}" r="3" fill="var(--{colour})"/>'
            for count, value in points.items()
        ]
    return parts


def _document(title: str, described: str, parts: Sequence[str], y: float, caption: Sequence[str]) -> str:
    lines = _wrapped(caption, _CAPTION_CHARACTERS)
    captions = [_text(20, y + 14 + _CAPTION_LINE * index, line, css="caption") for index, line in enumerate(lines)]
    height = y + 24 + _CAPTION_LINE * len(lines)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}"'
            f' height="{height:.0f}" role="img" aria-labelledby="title described">',
            f'<title id="title">{escape(title)}</title><desc id="described">{escape(described)}</desc>',
            f"<style>{_STYLE}</style>",
            '<rect width="100%" height="100%" rx="8" fill="var(--back)"/>',
            _text(20, 32, title, css="title"),
            *parts,
            *captions,
            "</svg>\n",
        ]
    )


def _text(x: float, y: float, text: str, anchor: str = "start", css: str = "") -> str:
    of_class = f' class="{css}"' if css else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{of_class}>{escape(text)}</text>'


def _wrapped(texts: Sequence[str], characters: int) -> list[str]:
    lines: list[str] = []
    for text in texts:
        line = ""
        for word in text.split():
            if line and len(line) + 1 + len(word) > characters:
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}".strip()
        lines.append(line)
    return lines


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _short(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value / 1000:g}k" if value >= 1000 and value % 100 == 0 else f"{value:,g}"


def _round_up(value: float) -> float:
    """The next number of the form 1, 2, 4 or 8 times a power of ten."""
    power: float = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 8, 10) if step * power >= value)
