"""Refusals of a server as errors of the command line: they name flags, not fields of the API."""

import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from restante_client.errors import Forbidden, ResponseError, RestanteError, Unauthorized

_FIELD = re.compile(r"([a-z_]+)((?:\[\d+\])?(?:\.[a-z_]+)?)(: )")


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
    except ResponseError as error:
        raise Refused(with_flags(error.message or str(error), flags)) from None


def with_flags(message: str, flags: Mapping[str, str]) -> str:
    """The message of a refusal with the flag in place of the field that it is about."""
    matched = _FIELD.match(message)
    if matched is None:
        return message
    rest = message[matched.end() :]
    for field, below in ((matched[1] + matched[2], ""), (matched[1], matched[2])):
        if field in flags:
            return f"{flags[field]}{below}{matched[3]}{rest}"
    return message


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
