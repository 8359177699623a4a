"""What the doctor looks at where Redis is configured: can it be reached, is it who it should be, does it let us in."""

import asyncio
from collections.abc import Iterator

from restante.cli.checks import Finding, State
from restante.server.settings import Settings

SUBJECT = "redis"


def look_at_redis(settings: Settings) -> Iterator[Finding]:
    """Nothing where there is none."""
    address = settings.redis_url
    if address is None:
        return
    # Imported here because nobody who does not use it need wait for its driver.
    from restante.delivery.redis_connection import RedisAway, RedisRefused
    from restante.delivery.redis_servers import RedisServers

    try:
        masters = asyncio.run(RedisServers(address).look())
    except RedisAway as error:
        remedy = "see that it runs, and that the address and the certificates are right; until then it is gone without"
        yield Finding(SUBJECT, State.problem, f"{address} cannot be reached: {error}", remedy)
    except RedisRefused as error:
        yield Finding(SUBJECT, State.problem, f"{address} refuses: {error}", "see that user and password are right")
    else:
        yield Finding(SUBJECT, State.ok, f"{address} answers" + (f", {masters} masters" if masters > 1 else ""))
