import msgspec

from restante.database.database import Database
from restante.updates.session_wire import session_of
from tests.conftest import ManualClock
from tests.updates.auth_app import serving


async def test_a_pair_as_it_is_sent(database: Database, clock: ManualClock) -> None:
    async with serving(database, clock) as app:
        sent = msgspec.to_builtins(session_of(app.tokens, 1, 2, "rt_x"))
    assert sent.keys() == {"access_token", "refresh_token", "token_type", "expires_in"}
    assert (sent["refresh_token"], sent["token_type"], sent["expires_in"]) == ("rt_x", "Bearer", 3600)
