"""What values the settings of event tokens may have, beside plain numbers."""

from dataclasses import dataclass

from restante.core.errors import BadInput
from restante.events.claims import check_uri


@dataclass(frozen=True, slots=True)
class Uri:
    expected: str = "a URI, for example https://bank.example"

    def read(self, raw: object, /) -> str:
        try:
            check_uri(raw, "")
        except BadInput:
            raise ValueError from None
        return str(raw)


@dataclass(frozen=True, slots=True)
class Words:
    """A text that goes into the header of a token."""

    characters_max: int = 512

    @property
    def expected(self) -> str:
        return f"1 to {self.characters_max} printable characters"

    def read(self, raw: object, /) -> str:
        if not isinstance(raw, str) or not 1 <= len(raw) <= self.characters_max or not raw.isprintable():
            raise ValueError
        return raw
