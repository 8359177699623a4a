"""A filter of devices: one set of fields for lists, counts, exports, groups and bulk jobs.

    query parameters ─┐
    JSON object ──────┼─▶ DeviceFilter ─▶ conditions (conditions.py) ─▶ rows (selection.py)
    stored group ─────┘

A filter holds times as they were written, `2026-01-18T10:00:00Z` or relative as `1h`, so that a stored group keeps its
meaning. This module does not know the database. An unknown field, or a value that cannot be, is refused with the name
of the field and, where one is close, with the name that was probably meant.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from restante.core.decoding import INT64_MAX, convert, suggestion
from restante.core.errors import BadInput
from restante.core.iso_time import parse_iso
from restante.identity.tags import TAG_PATTERN, TAGS_MAX, check_tag

TEXT_CHARACTERS_MAX = 255
VERSION_MAX = INT64_MAX
RELATIVE_DIGITS_MAX = 9

# The states of a device towards the version of its install config that it should have.
CONFIG_STATES = ("behind", "current", "fetched", "applied", "failed")
EXPECTED_CONFIG_VERSION = f"{', '.join(CONFIG_STATES)}, or the number of a version"
EXPECTED_TIME = "a time, 2026-01-18T10:00:00Z, or a duration such as 90s, 15m, 1h, 7d or 2w"

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_RELATIVE = re.compile(rf"([0-9]{{1,{RELATIVE_DIGITS_MAX}}})([smhdw])", re.ASCII)
_BOOLEANS = {"true": True, "false": False}

Text = Annotated[str, Meta(min_length=1, max_length=TEXT_CHARACTERS_MAX, pattern=r"^[^\x00]*\Z")]


class DeviceFilter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Devices for which every given field holds. A filter without fields matches every device.

    `name`: the beginning of the name, in its own case. `tag`: one tag, or several separated by commas, all of which
    the device must have. `config_version`: see CONFIG_STATES; `behind`: not fetched, or reported as failed; `current`:
    fetched or applied; a number: the version that the device fetched or applied last. `seen_before`: no poll since that
    time, or none at all. `overdue`: see decision 0141. `certificate_expires_before`: a certificate of the device ends
    before that time. `group`: the name or the id of a group.
    """

    name: Text | None = None
    tag: Annotated[str, Meta(min_length=1, max_length=TEXT_CHARACTERS_MAX, examples=["pilot"])] | None = None
    status: Literal["active", "revoked"] | None = None
    platform: Text | None = None
    agent_version: Text | None = None
    config_version: Annotated[int, Meta(ge=0, le=VERSION_MAX)] | Text | None = None
    seen_before: Annotated[str, Meta(max_length=64, examples=["1h"])] | None = None
    seen_after: Annotated[str, Meta(max_length=64, examples=["1h"])] | None = None
    overdue: bool | None = None
    certificate_expires_before: Annotated[str, Meta(max_length=64, examples=["30d"])] | None = None
    user_id: Annotated[int, Meta(ge=1, le=INT64_MAX)] | None = None
    group: Text | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the filter matches every device."""
        return self == EMPTY

    @property
    def tags(self) -> list[str]:
        return [] if self.tag is None else self.tag.split(",")


EMPTY = DeviceFilter()
FIELDS = DeviceFilter.__struct_fields__


def parse_object(fields: Mapping[str, Any], path: str = "filter") -> DeviceFilter:
    """The filter of a JSON object. An error names the field as `filter.<name>`, or as `<name>` without a path."""
    prefix = f"{path}." if path else ""
    _check_names(fields, FIELDS, prefix)
    given = {name: value for name, value in fields.items() if value is not None}
    for name, value in given.items():
        try:
            convert({name: value}, DeviceFilter, path)
        except BadInput as error:
            raise BadInput(prefix + name, error.expected) from None
    parsed = convert(given, DeviceFilter, path)
    check_values(parsed, prefix)
    return parsed


def parse_query(parameters: Iterable[tuple[str, str]], others: Iterable[str] = ()) -> DeviceFilter:
    """The filter in query parameters. `others`: parameters of the route that are no fields of the filter."""
    others = tuple(others)
    given: dict[str, Any] = {}
    for name, value in parameters:
        if name in others:
            continue
        if name in given:
            raise BadInput(name, "at most one value")
        given[name] = value
    _check_names(given, (*FIELDS, *others), "")
    if "overdue" in given:
        given["overdue"] = _BOOLEANS.get(given["overdue"], given["overdue"])
    if "user_id" in given:
        given["user_id"] = _number(given["user_id"])
    return parse_object(given, "")


def time_ms(text: str, field: str, now_ms: int, *, is_future: bool = False) -> int:
    """The time in milliseconds; a duration counts back from now, or ahead if `is_future`."""
    relative = _RELATIVE.fullmatch(text)
    if relative is None:
        try:
            return parse_iso(text, field)
        except BadInput:
            raise BadInput(field, EXPECTED_TIME) from None
    duration_ms = int(relative[1]) * _UNIT_SECONDS[relative[2]] * 1000
    return now_ms + duration_ms if is_future else max(0, now_ms - duration_ms)


def _check_names(given: Iterable[str], known: Iterable[str], prefix: str) -> None:
    known = tuple(known)
    for name in given:
        if name not in known:
            shown = name if name.isprintable() and len(name) <= TEXT_CHARACTERS_MAX else "filter"
            hint = suggestion(name, known)
            raise BadInput(prefix + shown, f"one of the fields {', '.join(known)}{hint}")


def check_values(parsed: DeviceFilter, prefix: str = "filter.") -> None:
    """Check what the types of the fields cannot express. `prefix` is written before the name of a wrong field."""
    if isinstance(parsed.config_version, str) and not _is_config_version(parsed.config_version):
        hint = suggestion(parsed.config_version, CONFIG_STATES)
        raise BadInput(prefix + "config_version", EXPECTED_CONFIG_VERSION + hint)
    if len(parsed.tags) > TAGS_MAX:
        raise BadInput(prefix + "tag", f"at most {TAGS_MAX} tags")
    for tag in parsed.tags:
        check_tag(tag, prefix + "tag")
    for name in ("seen_before", "seen_after", "certificate_expires_before"):
        text = getattr(parsed, name)
        if text is not None:
            time_ms(text, prefix + name, 0)


def _is_config_version(text: str) -> bool:
    return text in CONFIG_STATES or _number(text) is not text


def _number(text: str) -> int | str:
    """The number that a text is, within the bounds of ids; otherwise the text, which the type check refuses."""
    is_number = re.fullmatch("[0-9]{1,19}", text, re.ASCII) is not None and int(text) <= INT64_MAX
    return int(text) if is_number else text


# For the documentation of query parameters.
QUERY_SCHEMAS: dict[str, dict[str, Any]] = {
    "name": {"type": "string", "maxLength": TEXT_CHARACTERS_MAX},
    "tag": {"type": "string", "pattern": rf"^{TAG_PATTERN}(,{TAG_PATTERN})*$", "examples": ["pilot"]},
    "status": {"type": "string", "enum": ["active", "revoked"]},
    "platform": {"type": "string", "maxLength": TEXT_CHARACTERS_MAX},
    "agent_version": {"type": "string", "maxLength": TEXT_CHARACTERS_MAX},
    "config_version": {"type": "string", "pattern": rf"^({'|'.join(CONFIG_STATES)}|[0-9]{{1,18}})$"},
    "seen_before": {"type": "string", "examples": ["1h", "2026-01-18T10:00:00Z"]},
    "seen_after": {"type": "string", "examples": ["1h", "2026-01-18T10:00:00Z"]},
    "overdue": {"type": "boolean"},
    "certificate_expires_before": {"type": "string", "examples": ["30d", "2026-01-18T10:00:00Z"]},
    "user_id": {"type": "integer", "minimum": 1, "maximum": INT64_MAX},
    "group": {"type": "string", "maxLength": TEXT_CHARACTERS_MAX},
}
