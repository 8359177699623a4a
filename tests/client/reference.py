"""The reference of the client package, from its docstrings: `python -m tests.client.reference` writes the page."""

import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import restante_client
from restante_client import errors, testing
from restante_client.agent.collector import drivers

PAGE = Path(__file__).parents[2] / "docs" / "client-reference.md"

INTRODUCTION = """\
# Client reference

This page is for developers who use the Python package [restante-client](../client/README.md). It
lists every public class with its methods. `python -m tests.client.reference` writes it from the
docstrings.

Every client has a blocking twin with the same methods, without `async` and `await`:
`BlockingDeviceClient`, `BlockingCollectorClient`, `BlockingEventReceiver`.
"""

# What a subclass inherits from these is shown with the subclass.
SHOWN_BASES = ("Client",)


def build() -> str:
    names = [name for name in restante_client.__all__ if not name.startswith("Blocking")]
    sections = [("The package", [(name, getattr(restante_client, name)) for name in names])]
    sections += [(title, public_of(module)) for title, module in MODULES.items()]
    parts = [INTRODUCTION]
    for title, members in sections:
        parts.append(f"\n## {title}\n")
        parts += ["\n".join(member_lines(name, member)) + "\n" for name, member in members]
    return "\n".join(parts)


MODULES = {
    "Errors: `restante_client.errors`": errors,
    "Tests: `restante_client.testing`": testing,
    "Drivers of miners: `restante_client.agent.collector.drivers`": drivers,
}


def public_of(module: ModuleType) -> list[tuple[str, Any]]:
    """The classes that a module defines, in its order."""
    return [
        (name, member)
        for name, member in vars(module).items()
        if inspect.isclass(member) and member.__module__ == module.__name__ and not name.startswith("_")
    ]


def member_lines(name: str, member: Any) -> Iterator[str]:
    yield f"### `{name}`\n"
    if not inspect.isclass(member):
        yield f"```python\n{name}{signature_of(member)}\n```\n"
        yield inspect.getdoc(member) or ""
        return
    yield from docstring_lines(member)
    fields = list(fields_of(member))
    if fields:
        yield "\n| field | default |\n|---|---|"
        yield from (f"| `{field}` | {default} |" for field, default in fields)
    elif "__init__" in vars(member) and not issubclass(member, Exception):
        yield f"\n```python\n{name}{signature_of(member.__init__)}\n```"
    methods = list(methods_of(member))
    if methods:
        yield ""
        yield from methods


def docstring_lines(member: Any) -> Iterator[str]:
    """The first paragraphs as text; what looks like a program as code."""
    text = inspect.getdoc(member) if "__doc__" in vars(member) and member.__doc__ else ""
    # Dataclasses without a docstring get their signature as one.
    if not text or text.startswith(f"{member.__name__}("):
        return
    for paragraph in text.split("\n\n"):
        is_code = any(mark in paragraph for mark in (" = ", "async with", "await ", "with "))
        is_code = is_code and paragraph.splitlines()[0].rstrip().endswith((":", ")", "]"))
        yield f"```python\n{paragraph}\n```\n" if is_code else f"{paragraph}\n"


def fields_of(member: Any) -> Iterator[tuple[str, str]]:
    if issubclass(member, msgspec.Struct):
        for field in msgspec.structs.fields(member):
            is_required = field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
            default = field.default if field.default is not msgspec.NODEFAULT else None
            yield field.name, "required" if is_required else shown(default, field.default_factory)
    elif dataclasses.is_dataclass(member):
        for each in dataclasses.fields(member):
            is_required = each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
            default = each.default if each.default is not dataclasses.MISSING else None
            yield each.name, "required" if is_required else shown(default, each.default_factory)


def shown(default: Any, factory: Any) -> str:
    if factory not in (msgspec.NODEFAULT, dataclasses.MISSING):
        default = factory()
    return f"`{default!r}`"


def methods_of(member: Any) -> Iterator[str]:
    owners = [member, *(base for base in member.__mro__[1:] if base.__name__ in SHOWN_BASES)]
    seen: set[str] = set()
    for owner in owners:
        for name, found in vars(owner).items():
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            function = found.fget if isinstance(found, property) else found
            if not inspect.isfunction(function):
                continue
            text = " ".join((inspect.getdoc(function) or "").split())
            yield f"- `{signed(name, found, function)}`" + (f": {text}" if text else "")


def signed(name: str, found: Any, function: Any) -> str:
    if isinstance(found, property):
        return name
    is_generator = inspect.isasyncgenfunction(function)
    prefix = "async for … in " if is_generator else "await " if inspect.iscoroutinefunction(function) else ""
    return f"{prefix}{name}{signature_of(function)}"


def signature_of(function: Any) -> str:
    signature = inspect.signature(function)
    parameters = [each for each in signature.parameters.values() if each.name != "self"]
    text = str(signature.replace(parameters=parameters))
    # Annotations are texts, because of the future import.
    return text.replace("'", "").replace(" -> None", "")


if __name__ == "__main__":
    PAGE.write_text(build(), encoding="utf-8")
