"""Masks: the text that is shown instead of a secret, and passwords in URLs.

This module has no secret and reads no place where secrets are stored.
"""

import re

MASK = "[secret]"

# Everything up to the last @, because people write passwords with a slash or an @ that should have been encoded.
_URL_PASSWORD = re.compile(r"(://[^\s\"'<>:/@]*:)[^\s\"'<>]*@")


def mask_value(_value: str) -> str:
    return MASK


def mask_url_passwords(text: str) -> str:
    """Replace the password of each URL in a text."""
    return _URL_PASSWORD.sub(rf"\1{MASK}@", text) if "://" in text else text
