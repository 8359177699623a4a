"""A person approves or denies a device, through the API or the page, under the same rules; or signs in a command line.

To approve a device the person needs the role operator for their own devices. A command line acts as the person who
approves it, so that needs no role. Codes are short, so lookups are rate limited per person, right
or wrong.
"""

import math
import time
from collections.abc import Callable

from restante.core.errors import NotAllowed, TooManyRequests
from restante.core.token_bucket import TokenBuckets
from restante.database.database import Database
from restante.identity.callers import Person
from restante.identity.devices import device_codes
from restante.identity.devices.device_codes import PendingApproval, Purpose
from restante.identity.grants import Area, Role

LOOKUPS_BURST = 30
LOOKUPS_PER_SECOND = 0.5


class Approval:
    def __init__(self, database: Database, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._lookups = TokenBuckets(LOOKUPS_PER_SECOND, LOOKUPS_BURST)

    async def find_pending(self, person: Person, user_code: str) -> PendingApproval:
        """The pending approval under the code; raises NotFound if there is none."""
        self._count(person)
        pending = await self._database.read(device_codes.find_pending, user_code)
        _check_role(person, pending.purpose)
        return pending

    async def decide(self, person: Person, user_code: str, *, approve: bool, purpose: Purpose = Purpose.device) -> None:
        """Store the person's decision; raises NotFound if no approval is pending under the code."""
        _check_role(person, purpose)
        self._count(person)
        await self._database.write(device_codes.decide, user_code, person.user_id, approve=approve, purpose=purpose)

    def _count(self, person: Person) -> None:
        wait = self._lookups.acquire(person.user_id, self._clock())
        if wait:
            raise TooManyRequests("too many codes tried", retry_after_seconds=math.ceil(wait))


def _check_role(person: Person, purpose: Purpose) -> None:
    if purpose is Purpose.device:
        allowed = person.grants.allowed(Area.updates, Role.operator)
        if allowed is None or person.user_id not in allowed:
            yours = ", ".join(person.grants.as_texts())
            raise NotAllowed(f"approving a device needs the role operator for your devices; yours is {yours}")
