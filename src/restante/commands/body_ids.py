"""Ids in the bodies of edge commands: a whole number, or its decimal text, as collectors in the field send it.

A text has no leading zero, so that an id has one text: a collector that knows a miner as "0007" would not recognise the
7 in its commands. After decoding, every id is a number.
"""

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from restante.core.decoding import INT64_MAX
from restante.core.errors import BadInput

# Up to 15 digits: below 2^53, the largest integer that every JSON parser reads exactly.
ID_TEXT = r"^[1-9][0-9]{0,14}\Z"
_id_text = re.compile(ID_TEXT, re.ASCII)
_Text = Annotated[str, Meta(pattern=ID_TEXT)]

if TYPE_CHECKING:
    Id = int
    MinerId = int
else:
    Id = Annotated[int, Meta(ge=1, le=INT64_MAX)] | _Text
    # Miner ids are signed as JSON numbers and must not exceed 2^53: some JSON parsers round larger integers.
    MinerId = Annotated[int, Meta(ge=1, le=2**53)] | _Text


class BodyWithIds(msgspec.Struct, frozen=True):
    """A body whose fields of these names are ids or lists of ids; texts become numbers when it is decoded."""

    id_fields: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name in self.id_fields:
            value = getattr(self, name)
            if isinstance(value, str):
                msgspec.structs.force_setattr(self, name, int(value))
            elif isinstance(value, list):
                msgspec.structs.force_setattr(self, name, [int(each) for each in value])


def parse_id(value: Any, field: str, expected: str) -> int:
    """The id of a decoded value that has no declared type."""
    if isinstance(value, str) and _id_text.match(value):
        return int(value)
    if type(value) is int and 0 < value <= INT64_MAX:
        return value
    raise BadInput(field, expected)
