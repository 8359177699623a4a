"""The configuration file of a program: TOML, decoded into a msgspec structure whose annotations are the documentation.

Each field has a type, bounds and a description (`Meta(description=…)`); `reference` makes the table of the pages from
them, so that no field is undocumented. Every error names the file and the field: `device.toml: apply.window: …`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypeVar

import msgspec
from msgspec import Meta

C = TypeVar("C", bound="AgentConfig")

_AT = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_NAMED = re.compile(r"Object (?P<kind>missing required|contains unknown) field `(?P<name>[^`]*)`")
_PATTERN = re.compile(r"Expected `str` matching regex .*", re.DOTALL)


class ConfigError(Exception):
    """The configuration is wrong. The text names the field."""


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file. Subclasses declare `name: Annotated[type, Meta(description=…)] = default`."""


class AgentConfig(Section, frozen=True, kw_only=True):
    """What the configurations of all programs have."""

    server: Annotated[
        str, Meta(pattern=r"^https?://[^/\s]+", description="The address of the server: `https://restante.example`.")
    ]
    state: Annotated[
        Optional[str],
        Meta(description="The state folder, readable by its owner alone. Default: `/var/lib/restante-agent/PROGRAM`."),
    ] = None
    ca_file: Annotated[
        Optional[str],
        Meta(description="A PEM file with the authorities that the server's certificate may come from, and no others."),
    ] = None
    timeout_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="The longest time that a response of the server may take.")
    ] = 30.0
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="The least level of log lines.")
    ] = "info"

    def problems(self) -> Iterator[tuple[str, str]]:
        """Pairs of a field and what was expected, for rules that the types cannot state."""
        yield from ()

    def http_options(self) -> dict[str, Any]:
        """The options of the HTTP client that come from the file."""
        if self.server.startswith("http://"):
            # Nothing is verified without TLS: the certificates of all authorities need not be loaded.
            return {"verify": False}
        if self.ca_file is None:
            return {}
        import ssl

        try:
            return {"verify": ssl.create_default_context(cafile=self.ca_file)}
        except OSError as error:
            raise ConfigError(f"ca_file: {self.ca_file} cannot be used: {error}") from None


def load(file: Path, kind: type[C]) -> C:
    """Read a file, or raise `ConfigError`."""
    try:
        return decode(read_toml(file), kind)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None


def decode(values: dict[str, Any], kind: type[C]) -> C:
    try:
        config = msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(str(error), kind)) from None
    for field, expected in config.problems():
        raise ConfigError(f"{field}: expected {expected}")
    return config


def reference(kind: type[Section], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    """The name, the default and the description of every field, tables after the plain fields."""
    tables: list[tuple[str, type[Section]]] = []
    for field in msgspec.structs.fields(kind):
        found = _section_of(field.type)
        if found is not None:
            tables.append((field.encode_name, found))
            continue
        yield prefix + field.encode_name, _default(field), _description(kind, prefix, field)
    for name, section in tables:
        yield from reference(section, f"{prefix}{name}.")


def markdown(kind: type[Section]) -> str:
    """The reference as a table for the pages."""
    rows = [f"| `{name}` | {default} | {text} |" for name, default, text in reference(kind)]
    return "\n".join(["| field | default | meaning |", "|---|---|---|", *rows]) + "\n"


def read_toml(file: Path) -> dict[str, Any]:
    """The tables of a TOML file. Raises `OSError`, or `ConfigError` if it is not TOML."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return dict(tomllib.loads(file.read_text("utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"not TOML: {error}") from None


def _explain(text: str, kind: type[Section]) -> str:
    """msgspec's message with the field first."""
    found = _AT.search(text)
    path = found.group("path") if found else ""
    text = text[: found.start()] if found else text
    named = _NAMED.search(text)
    if named is not None:
        field = f"{path}.{named.group('name')}" if path else named.group("name")
        return f"{field}: {'missing' if named.group('kind').startswith('missing') else 'unknown field'}"
    known = {name: description for name, _, description in reference(kind)}
    if _PATTERN.search(text) and path in known:
        return f"{path}: not as expected. {known[path]}"
    return f"{path}: {text[0].lower()}{text[1:]}"


def _section_of(kind: Any) -> type[Section] | None:
    kind = getattr(kind, "__origin__", kind) if getattr(kind, "__metadata__", None) else kind
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


def _description(kind: type[Section], prefix: str, field: Any) -> str:
    for meta in getattr(field.type, "__metadata__", ()):
        if isinstance(meta, Meta) and meta.description:
            return str(meta.description)
    raise AssertionError(f"{kind.__name__}.{prefix}{field.name} has no description")


def _default(field: Any) -> str:
    if field.default is not msgspec.NODEFAULT:
        return "" if field.default is None else f"`{_toml(field.default)}`"
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{_toml(field.default_factory())}`"
    return "required"


def _toml(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return msgspec.json.encode(value).decode()
