"""Whom a stream of shared signals follows: what its receiver said of each subject, the last word counting.

Every word is kept, whether we know the subject or not, and answered alike: nobody learns from it who exists here.
"""

from collections.abc import Mapping
from typing import Any

from restante.core.canonical import canonical
from restante.core.errors import BadInput
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.events import streams, subjects
from restante.events.claims import check_json, check_subject

SQL = queries_beside(__file__)

SUBJECT_BYTES_MAX = 4096


def checked_subject(subject: Mapping[str, Any]) -> bytes:
    """The subject in its one written form; BadInput if it is none."""
    check_json(subject, "subject")
    check_subject(subject, "subject")
    written = canonical(subject)
    if len(written) > SUBJECT_BYTES_MAX:
        raise BadInput("subject", f"at most {SUBJECT_BYTES_MAX} bytes of JSON")
    return written


def add(conn: Connection, client: int, public_id: str, subject: Mapping[str, Any], *, is_verified: bool) -> None:
    """Send events about the subject from now on."""
    _say(conn, client, public_id, subject, is_added=True, is_verified=is_verified)


def remove(conn: Connection, client: int, public_id: str, subject: Mapping[str, Any]) -> None:
    """Send no more events about the subject."""
    _say(conn, client, public_id, subject, is_added=False, is_verified=True)


def _say(
    conn: Connection, client: int, public_id: str, subject: Mapping[str, Any], *, is_added: bool, is_verified: bool
) -> None:
    written = checked_subject(subject)
    stream = streams.get(conn, client, public_id)
    if subject == {"format": "opaque", "id": public_id}:
        # The stream itself is always followed.
        return
    conn.run(
        SQL.say,
        stream=stream.id,
        subject_hash=subjects.digest(subject),
        subject=written.decode(),
        is_added=int(is_added),
        is_verified=int(is_verified),
        now_ms=conn.now_ms,
    )
