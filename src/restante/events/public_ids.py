"""Ids that callers name: texts of ours, handed out as names of things. What could not be one of them is nowhere."""

import re

from restante.core.errors import NotFound

_IS_ONE = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII).fullmatch


def known_form(text: str, message: str) -> str:
    """The id as it is, if it can be one; NotFound, before any database is asked, if not."""
    if not _IS_ONE(text):
        raise NotFound(message)
    return text
