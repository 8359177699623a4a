"""Refusals of a server as errors of the command line: they name flags, not fields of the API."""

import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from restante_client.errors import Forbidden, NotFound, ResponseError, RestanteError, Unauthorized, Unreachable

from restante import __version__

_FIELD = re.compile(r"([a-z_]+)((?:\[\d+\])?(?:\.[a-z_]+)?)(: )")
# A name with an underscore is that of a field, not a word.
_FIELD_NAME = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")

# What a server says about a path that it does not have.
NO_ROUTE = "there is nothing at this path"
_CONNECT = re.compile(r"\w+ (?P<url>https?://[^/\s]+)\S*: \w+: (?:\[Errno -?\d+\] )?(?P<why>.*)", re.DOTALL)
_HINTS = {
    "CERTIFICATE_VERIFY_FAILED": "set SSL_CERT_FILE to the file of the authorities that you trust",
    "WRONG_VERSION_NUMBER": "does the server use http:// instead?",
    "Name or service not known": "is the name right?",
    "refused": "is the address right, and does the server run?",
}


class Refused(RestanteError):
    """The server refused the request; the text names flags."""


@contextmanager
def translated(flags: Mapping[str, str]) -> Iterator[None]:
    """Turn refusals of the server into errors that name flags."""
    try:
        yield
    except Unauthorized as error:
        raise Refused(f"{error.message or 'not signed in'} (sign in with `restante login URL`)") from None
    except Forbidden as error:
        raise Refused(f"{error.message or 'not allowed'} (`restante whoami` shows your role)") from None
    except NotFound as error:
        if error.message == NO_ROUTE:
            raise Refused(
                f"the server does not know this request: is it older than this program ({__version__})?"
            ) from None
        raise Refused(with_flags(error.message or str(error), flags)) from None
    except ResponseError as error:
        raise Refused(with_flags(error.message or str(error), flags)) from None
    except Unreachable as error:
        raise Refused(_why_unreachable(str(error))) from None


def _why_unreachable(text: str) -> str:
    """The client's description of a failed request: the server, the reason, and what to do."""
    matched = _CONNECT.fullmatch(text)
    if matched is None:
        return text
    hint = next((f" ({hint})" for part, hint in _HINTS.items() if part in matched["why"]), "")
    return f"{matched['url']} cannot be reached: {matched['why']}{hint}"


def with_flags(message: str, flags: Mapping[str, str]) -> str:
    """The message of a refusal with the flag in place of the field that it is about."""
    matched = _FIELD.match(message)
    if matched is None:
        return message
    rest = message[matched.end() :]
    for field, below in ((matched[1] + matched[2], ""), (matched[1], matched[2])):
        if field in flags:
            return f"{flags[field]}{below}{matched[3]}{_FIELD_NAME.sub(partial(_flag_in_text, flags), rest)}"
    return message


def _flag_in_text(flags: Mapping[str, str], matched: re.Match[str]) -> str:
    return flags.get(matched[0], matched[0])


def flag_of(parameter: inspect.Parameter) -> str:
    """How a person writes the parameter: its flag, or the name of the argument in the help."""
    for info in getattr(parameter.annotation, "__metadata__", ()):
        # In an annotation, Typer takes the first flag for the default.
        names = (getattr(info, "default", None), *(getattr(info, "param_decls", None) or ()))
        declared = [each for each in names if isinstance(each, str) and each.startswith("--")]
        if declared:
            return declared[0].partition("/")[0]
        if getattr(info, "metavar", None):
            return str(info.metavar)
    return parameter.name.upper()
