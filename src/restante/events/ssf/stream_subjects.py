"""The subjects that a Shared Signals stream follows: the last preference of its receiver for each subject.

Preferences are stored for known and unknown subjects alike, so that a receiver cannot find out who exists. A preference
not to follow a subject is stored too: for a complex subject the most specific preference wins.

Invariant: a stream has preferences for at most `subjects_max` subjects; existing ones can always be changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from restante.core.commands.canonical import canonical_json
from restante.core.errors import BadInput, NotAllowed
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.events.publishing import subjects
from restante.events.publishing.token_claims import check_json, check_subject
from restante.events.ssf import streams

SQL = queries_beside(__file__)

SUBJECT_BYTES_MAX = 4096


def canonical_subject(subject: Mapping[str, Any]) -> bytes:
    """Return the canonical JSON of a subject; raise BadInput if it is not valid."""
    check_json(subject, "subject")
    check_subject(subject, "subject")
    encoded = canonical_json(subject)
    if len(encoded) > SUBJECT_BYTES_MAX:
        raise BadInput("subject", f"at most {SUBJECT_BYTES_MAX} bytes of JSON")
    return encoded


@dataclass(frozen=True, slots=True)
class SubjectPreference:
    """Whether a receiver follows a subject."""

    subject: Mapping[str, Any]
    is_added: bool
    is_verified: bool = True


def set_preference(
    conn: Connection, client: int, public_id: str, preference: SubjectPreference, subjects_max: int
) -> None:
    """Follow the subject or stop following it; raise NotAllowed if the stream has too many subjects."""
    encoded = canonical_subject(preference.subject)
    stream = streams.get_for_update(conn, client, public_id)
    if preference.subject == {"format": "opaque", "id": public_id}:
        # A stream always follows itself.
        return
    values = {
        "stream": stream.id,
        "subject_hash": subjects.subject_digest(preference.subject),
        "is_added": int(preference.is_added),
        "is_verified": int(preference.is_verified),
        "now_ms": conn.now_ms,
    }
    if conn.run(SQL.update_preference, **values):
        return
    if not conn.run(SQL.count_subject, stream=stream.id, subjects_max=subjects_max):
        raise NotAllowed(
            f"subject: the stream already has {subjects_max} subjects, added and removed ones, which is the limit"
        )
    conn.run(SQL.insert_preference, **values, subject=encoded.decode())
