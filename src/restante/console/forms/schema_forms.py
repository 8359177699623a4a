"""Forms made from a JSON Schema of an object: its fields for the page, and the object that a posted form stands for.

    schema ─▶ fields_of ─▶ macro `schema_fields` ─▶ browser ─▶ value_of ─▶ object, which the operator function checks

A text, number, choice or yes/no has an input of its own; a list of texts or numbers has one line for each; everything
else is JSON in a text area. An empty field that is not required is left out of the object. This module only reads the
form: whether the values are allowed is decided by the function that gets the object, whose BadInput names the field.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from restante.console.forms.forms import Form
from restante.core.decoding import DIGITS, INT64_MAX
from restante.core.errors import BadInput

_SIMPLE = ("string", "integer", "number", "boolean")
_WORD_TO_BOOL = {"true": True, "false": False, "": None}


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form, as the macro `field` takes it."""

    name: str
    label: str
    type: str
    value: str
    help: str
    required: bool
    problem: str = ""
    options: list[tuple[str, str]] | None = None
    attributes: dict[str, str] | None = None


def object_schema(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of a struct, with the definitions that it refers to."""
    whole = msgspec.json.schema(kind)
    return {**whole["$defs"][whole["$ref"].rpartition("/")[2]], "$defs": whole["$defs"]}


def fields_of(
    schema: Mapping[str, Any], values: Mapping[str, Any], problem: BadInput | None = None, prefix: str = ""
) -> list[FormField]:
    """The fields of the object, with these values. `problem` is shown at the field that it names. Names in the form
    begin with `prefix`."""
    required = schema.get("required", ())
    return [
        _field(schema, name, each, values.get(name), name in required, problem, prefix)
        for name, each in schema.get("properties", {}).items()
    ]


def value_of(schema: Mapping[str, Any], form: Form, prefix: str = "") -> dict[str, Any]:
    """The object that the form stands for. BadInput names a field whose text cannot be read."""
    found: dict[str, Any] = {}
    for name, each in schema.get("properties", {}).items():
        text = form.text(prefix + name, 100_000).strip()
        if text:
            found[name] = _read(prefix + name, _resolved(schema, each), text)
    return found


def _field(
    schema: Mapping[str, Any],
    name: str,
    raw: Mapping[str, Any],
    value: Any,
    is_required: bool,
    problem: BadInput | None,
    prefix: str,
) -> FormField:
    own = _resolved(schema, raw)
    kind, options = own.get("type"), _options(own, is_required)
    input_type = "number" if kind in ("integer", "number") else "text" if kind == "string" else "textarea"
    is_wrong = problem is not None and problem.field.split(".")[-1].split("[")[0] == name
    return FormField(
        prefix + name,
        name.replace("_", " ").capitalize(),
        input_type,
        _shown(value if value is not None else own.get("default"), own),
        _help(own),
        is_required,
        f"expected {problem.expected}" if problem is not None and is_wrong else "",
        options,
        _attributes(own),
    )


def _resolved(schema: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema itself, instead of a reference to it, and without the alternative null."""
    if "$ref" in own:
        return _resolved(schema, schema["$defs"][own["$ref"].rpartition("/")[2]])
    others = [each for each in own.get("anyOf", ()) if each.get("type") != "null"]
    if {each.get("type") for each in others} == {"string", "integer"}:
        return {"type": "string", "or_whole_number": True, **{key: own[key] for key in own if key == "description"}}
    if len(others) == 1:
        return {**_resolved(schema, others[0]), **{key: own[key] for key in ("description", "default") if key in own}}
    return own


def _options(own: Mapping[str, Any], is_required: bool) -> list[tuple[str, str]] | None:
    if own.get("type") == "boolean":
        words = [("true", "yes"), ("false", "no")]
    elif "enum" in own:
        words = [(str(each), str(each)) for each in own["enum"]]
    else:
        return None
    return words if is_required else [("", "not set"), *words]


def _attributes(own: Mapping[str, Any]) -> dict[str, str]:
    names = {"minimum": "min", "maximum": "max", "maxLength": "maxlength"}
    given = {names[key]: f"{own[key]}" for key in names if key in own}
    return {**given, "step": "any"} if own.get("type") == "number" else given


def _help(own: Mapping[str, Any]) -> str:
    parts = [str(own["description"])] if "description" in own else []
    if "minimum" in own and "maximum" in own and own["maximum"] < INT64_MAX:
        parts.append(f"from {own['minimum']} to {own['maximum']}")
    if own.get("type") == "array":
        parts.append("one on each line" if _is_plain_list(own) else "a JSON list")
    elif own.get("type") not in _SIMPLE and "enum" not in own:
        parts.append("JSON")
    text = "; ".join(parts)
    return text[:1].upper() + text[1:]


def _is_plain_list(own: Mapping[str, Any]) -> bool:
    return own.get("items", {}).get("type") in ("string", "integer", "number")


def _shown(value: Any, own: Mapping[str, Any]) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list) and _is_plain_list(own):
        return "\n".join(str(each) for each in value)
    if isinstance(value, str | int | float):
        return str(value)
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _read(name: str, own: Mapping[str, Any], text: str) -> Any:
    kind = own.get("type")
    if kind == "array" and _is_plain_list(own):
        return [_read(name, own["items"], line.strip()) for line in text.splitlines() if line.strip()]
    if kind == "string" or ("enum" in own and kind is None):
        return int(text) if "or_whole_number" in own and DIGITS.fullmatch(text) and len(text) < 19 else text
    if kind == "boolean":
        if text not in _WORD_TO_BOOL:
            raise BadInput(name, "yes or no")
        return _WORD_TO_BOOL[text]
    if kind in ("integer", "number"):
        return _number(name, text, is_whole=kind == "integer")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInput(name, f"valid JSON ({error})") from None


def _number(name: str, text: str, *, is_whole: bool) -> int | float:
    if len(text) > 40:
        raise BadInput(name, "a number")
    try:
        return int(text) if is_whole else float(text)
    except ValueError:
        raise BadInput(name, "a whole number" if is_whole else "a number") from None
