"""Checks ids of subscriptions and streams that callers name, before they reach the database."""

import re

from restante.core.errors import NotFound

_IS_PUBLIC_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII).fullmatch


def check_public_id(text: str, message: str) -> str:
    """Return the id; raise NotFound with `message` if no id can have this form."""
    if not _IS_PUBLIC_ID(text):
        raise NotFound(message)
    return text
