"""Whom a stream of shared signals follows: what its receiver said of each subject, the last word counting.

Every word is kept, whether we know the subject or not, and answered alike: nobody learns from it who exists here. That
a subject is not to be followed is kept, too: where a subject says several things at once, the most exact word counts.

Must always hold: a stream has said something of at most `subjects_max` subjects, each of which may be said otherwise.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from restante.core.canonical import canonical
from restante.core.errors import BadInput, NotAllowed
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


class Word(NamedTuple):
    """What a receiver says of a subject: whether it is to be followed."""

    subject: Mapping[str, Any]
    is_added: bool
    is_verified: bool = True


def say(conn: Connection, client: int, public_id: str, word: Word, subjects_max: int) -> None:
    """Send events about the subject from now on, or no more; NotAllowed if it is one subject too many."""
    written = checked_subject(word.subject)
    stream = streams.locked(conn, client, public_id)
    if word.subject == {"format": "opaque", "id": public_id}:
        # The stream itself is always followed.
        return
    said = {
        "stream": stream.id,
        "subject_hash": subjects.digest(word.subject),
        "is_added": int(word.is_added),
        "is_verified": int(word.is_verified),
        "now_ms": conn.now_ms,
    }
    if conn.run(SQL.say_otherwise, **said):
        return
    if not conn.run(SQL.count_one_more, stream=stream.id, subjects_max=subjects_max):
        raise NotAllowed(
            f"subject: the stream has named {subjects_max} subjects, which is as many as it may, added and removed ones"
        )
    conn.run(SQL.say, **said, subject=written.decode())
