"""The rights of a job's creator now: a job never does what its creator may not do any more.

The grants are read again for every batch, in its transaction. A creator who was suspended or removed, whose key was
revoked or has expired, or who lost the role in the job's area, has no rights: the job pauses.
"""

import msgspec

from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.identity.grants import AllowedIds, Area, Grants, Role, stored_grants

SQL = queries_beside(__file__)

# The actor of a local administrator, who has every right as long as the server runs.
LOCAL_PREFIX = "local:"
_EVERYTHING = Grants.everywhere(Role.admin)

NO_RIGHTS = "the creator may not do this any more"


def allowed_now(conn: Connection, job: Row) -> AllowedIds | None:
    """The resources that the creator of the job may change now, within the job's scope; None if there are none."""
    is_local = job["created_by"].startswith(LOCAL_PREFIX)
    grants = _EVERYTHING if is_local else _grants_now(conn, job["person_id"], job["key_id"])
    allowed = None if grants is None else grants.allowed(Area(job["area"]), Role[job["role"]])
    if allowed is None or job["scope"] is None:
        return allowed
    scope = msgspec.json.decode(job["scope"], type=list[int | str])
    common = frozenset(each for each in scope if each in allowed)
    return AllowedIds(common) if common or not scope else None


def _grants_now(conn: Connection, person_id: int | None, key_id: int | None) -> Grants | None:
    if person_id is not None:
        row = conn.one(SQL.person, person_id=person_id)
    else:
        row = conn.one(SQL.key, key_id=key_id, now_ms=conn.now_ms)
    if row is None:
        return None
    grants: Grants | None = stored_grants(row["role"], row["grants"])
    if person_id is None and row["user_id"] is not None and grants is not None:
        grants = grants.within(stored_grants(row["user_role"], row["user_grants"]))
    return grants
