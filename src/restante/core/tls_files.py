"""Error texts for certificate and key files that cannot be used. Reads no file itself."""

import ssl


def no_password() -> str:
    """A password callback that refuses. Without one, OpenSSL would prompt on the terminal and the server would hang."""
    raise ValueError("the key is protected by a password; give it without")


def why_unusable(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"not valid PEM, or certificate and key do not belong together ({error.reason or error})"
    return str(error.strerror or error) if isinstance(error, OSError) else str(error)
