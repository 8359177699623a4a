"""Nonces: what shows that an ACK belongs to the hand-out it is for. Random UUIDs (version 4), which nobody can guess.

Written by hand, because the standard library makes an object of each first, in four times the time; every hand-out
needs one.
"""

import os

# The variant's two bits stand in front of two random ones.
_VARIANTS = "89ab"


def new_nonce() -> str:
    digits = os.urandom(16).hex()
    variant = _VARIANTS[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
