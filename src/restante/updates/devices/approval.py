"""A person approves or denies a device, through the API or the page, under the same rules.

The person needs the role operator for their own devices. Codes are short, so lookups are rate limited per person, right
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
from restante.identity.devices.device_codes import PendingApproval
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
        self._check(person)
        return await self._database.read(device_codes.find_pending, user_code)

    async def decide(self, person: Person, user_code: str, *, approve: bool) -> None:
        """Store the person's decision; raises NotFound if no approval is pending under the code."""
        self._check(person)
        await self._database.write(device_codes.decide, user_code, person.user_id, approve=approve)

    def _check(self, person: Person) -> None:
        """Check the role, and count the lookup."""
        allowed = person.grants.allowed(Area.updates, Role.operator)
        if allowed is None or person.user_id not in allowed:
            yours = ", ".join(person.grants.as_texts())
            raise NotAllowed(f"approving a device needs the role operator for your devices; yours is {yours}")
        wait = self._lookups.acquire(person.user_id, self._clock())
        if wait:
            raise TooManyRequests("too many codes tried", retry_after_seconds=math.ceil(wait))
