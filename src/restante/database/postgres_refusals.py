"""Which refusals of PostgreSQL time will not mend: a wrong password, a database that is not there, a certificate.

libpq passes on what a server says that takes no connection, but not the code that goes with it, so all there is to go
by is the words. Must always hold: whatever is not surely for good is taken for passing, as a server that starts up,
stops, recovers or has no connection left refuses, too, and whoever waits for it can be told to stop.
"""

import re

_FOR_GOOD = re.compile(
    r"authentication failed for user"
    r"|no password supplied"
    r"|no pg_hba\.conf entry"
    r'|(?:database|role) ".*" does not exist'
    r"|is not permitted to log in"
    r"|permission denied for database"
    r"|unrecognized configuration parameter"
    r"|certificate verify failed"
    r"|server certificate for .* does not match host name"
    r"|root certificate file .* does not exist"
    r"|could not read root certificate file"
    r"|does not support SSL"
)
# Where several hosts were tried, what each of them said.
_TRIED = re.compile(r"^- host: .*", re.MULTILINE)


def is_for_good(said: str) -> bool:
    """By the text of the driver's error. Of several servers, all must have said so."""
    return all(_FOR_GOOD.search(one) for one in _TRIED.findall(said) or [said])
