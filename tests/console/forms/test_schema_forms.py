"""Forms made from a JSON Schema: their fields, and the object that a posted form stands for."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from restante.console.forms.forms import Form
from restante.console.forms.schema_forms import fields_of, object_schema, value_of
from restante.core.errors import BadInput


class Fan(msgspec.Struct):
    speed: Annotated[int, Meta(ge=0, le=100, description="percent of full speed")]
    mode: Literal["auto", "manual"]
    is_quiet: bool = False
    names: list[str] = []
    limits: dict[str, int] = {}
    factor: float | None = None
    version: int | str | None = None


def schema() -> dict[str, Any]:
    return object_schema(Fan)


def test_each_field_has_the_input_of_its_type() -> None:
    fields = {field.name: field for field in fields_of(schema(), {"speed": 40, "names": ["a", "b"]})}
    assert (fields["speed"].type, fields["speed"].value, fields["speed"].required) == ("number", "40", True)
    assert fields["speed"].attributes == {"min": "0", "max": "100"}
    assert fields["speed"].help == "Percent of full speed; from 0 to 100"
    assert fields["mode"].options == [("auto", "auto"), ("manual", "manual")]
    assert fields["is_quiet"].options == [("", "not set"), ("true", "yes"), ("false", "no")]
    assert (fields["names"].type, fields["names"].value) == ("textarea", "a\nb")
    assert fields["limits"].help == "JSON"
    assert fields["factor"].attributes == {"step": "any"}


def test_posted_form_stands_for_an_object() -> None:
    form = Form(
        [("p.speed", "40"), ("p.mode", "auto"), ("p.is_quiet", "true"), ("p.names", "a\r\n\r\n b "), ("p.factor", "")]
    )
    assert value_of(schema(), form, "p.") == {"speed": 40, "mode": "auto", "is_quiet": True, "names": ["a", "b"]}


def test_number_or_word_is_read_as_what_it_is() -> None:
    assert value_of(schema(), Form([("version", "7")])) == {"version": 7}
    assert value_of(schema(), Form([("version", "behind")])) == {"version": "behind"}


@pytest.mark.parametrize(
    ("name", "text"), [("speed", "fast"), ("limits", "{"), ("factor", "1,5"), ("is_quiet", "maybe")]
)
def test_unreadable_field_is_named(name: str, text: str) -> None:
    with pytest.raises(BadInput) as caught:
        value_of(schema(), Form([(name, text)]))
    assert caught.value.field == name


def test_problem_is_shown_at_its_field() -> None:
    shown = fields_of(schema(), {}, BadInput("params.speed", "a whole number from 0 to 100"))
    assert [(field.name, field.problem) for field in shown if field.problem] == [
        ("speed", "expected a whole number from 0 to 100")
    ]
