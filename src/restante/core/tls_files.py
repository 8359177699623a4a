"""What is said about files of certificates and keys that cannot be used. Reads none itself."""

import ssl


def no_password() -> str:
    """To be asked for the password of a key: without it, OpenSSL would ask on the terminal, and the server would wait
    for an answer."""
    raise ValueError("the key is protected by a password; give it without")


def why_unusable(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"not valid PEM, or certificate and key do not belong together ({error.reason or error})"
    return str(error.strerror or error) if isinstance(error, OSError) else str(error)
