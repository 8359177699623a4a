"""A person lets a device in, or does not: by the API or by the page, under the same rules.

It takes an operator. Codes are short, so looking one up is limited per person, right or wrong.
"""

import math
import time
from collections.abc import Callable

from restante.core.errors import NotAllowed, TooManyRequests
from restante.core.token_bucket import TokenBuckets
from restante.database.database import Database
from restante.identity import device_codes
from restante.identity.callers import Person, Role
from restante.identity.device_codes import Waiting

LOOKUPS_BURST = 30
LOOKUPS_PER_SECOND = 0.5


class Approval:
    def __init__(self, database: Database, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._lookups = TokenBuckets(LOOKUPS_PER_SECOND, LOOKUPS_BURST)

    async def look(self, person: Person, user_code: str) -> Waiting:
        """What waits under the code; NotFound if nothing does."""
        self._admit(person)
        return await self._database.read(device_codes.find_waiting, user_code)

    async def decide(self, person: Person, user_code: str, *, approve: bool) -> None:
        """The person's answer; NotFound if nothing waits under the code (any more)."""
        self._admit(person)
        await self._database.write(device_codes.decide, user_code, person.user_id, approve=approve)

    def _admit(self, person: Person) -> None:
        if person.role < Role.operator:
            raise NotAllowed(f"letting a device in needs the role operator; yours is {person.role.name}")
        wait = self._lookups.take(person.user_id, self._clock())
        if wait:
            raise TooManyRequests("too many codes tried", retry_after_seconds=math.ceil(wait))
