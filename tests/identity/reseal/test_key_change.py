import pytest

from restante.core.errors import Conflict
from restante.database.database import Database
from restante.identity.master_key import MasterKey
from restante.identity.reseal import key_change
from restante.identity.reseal.key_change import SILENT_SECONDS, Holder
from tests.conftest import ManualClock

OLD, NEW, OTHER = MasterKey(bytes(32)), MasterKey(b"n" * 32), MasterKey(b"o" * 32)
BOTH = OLD.sealing_with(OLD.key_id, [NEW])
HOLDER = Holder("p1", "host, process 1")


def announced(database: Database) -> key_change.KeyChange:
    return database.write_now(key_change.announce, OLD.key_id, NEW.key_id)


def test_announcing_again_continues_the_change(database: Database) -> None:
    first = announced(database)
    assert announced(database) == first == database.read_now(key_change.unfinished)
    assert first.sealing_id == OLD.key_id


def test_key_of_an_announced_change_is_replaced(database: Database) -> None:
    announced(database)
    change = database.write_now(key_change.announce, OLD.key_id, OTHER.key_id)
    assert database.read_now(key_change.unfinished) == change
    assert change.new_key_id == OTHER.key_id


def test_key_of_a_change_that_seals_is_not_replaced(database: Database) -> None:
    database.write_now(key_change.start_sealing, announced(database), {})
    with pytest.raises(Conflict, match=NEW.key_id):
        database.write_now(key_change.announce, OLD.key_id, OTHER.key_id)
    change = database.read_now(key_change.unfinished)
    assert change is not None
    assert change.sealing_id == NEW.key_id


def test_stored_derived_keys_stay_when_they_are_stored_again(database: Database) -> None:
    change = announced(database)
    for key in (b"first", b"again"):
        database.write_now(key_change.start_sealing, change, {"audit": NEW.seal(key, "derived key audit")})
    assert database.read_now(key_change.stored_derived_keys, NEW) == {"audit": b"first"}


def test_server_is_ready_when_it_knows_and_then_seals_with_the_new_key(database: Database) -> None:
    change = announced(database)
    assert database.read_now(key_change.unready_hosts, change) == []
    database.write_now(key_change.report, HOLDER, OLD)
    assert database.read_now(key_change.unready_hosts, change) == [HOLDER.host]
    database.write_now(key_change.report, HOLDER, BOTH)
    assert database.read_now(key_change.unready_hosts, change) == []
    database.write_now(key_change.start_sealing, change, {})
    sealing = database.read_now(key_change.unfinished)
    assert sealing is not None
    assert database.read_now(key_change.unready_hosts, sealing) == [HOLDER.host]
    database.write_now(key_change.report, HOLDER, BOTH.sealing_with(NEW.key_id))
    assert database.read_now(key_change.unready_hosts, sealing) == []


def test_process_that_is_silent_during_a_change_does_not_hold_it_up(database: Database, clock: ManualClock) -> None:
    database.write_now(key_change.report, HOLDER, OLD)
    clock.advance(86_400)
    change = announced(database)
    assert database.read_now(key_change.unready_hosts, change) == [HOLDER.host]
    clock.advance(SILENT_SECONDS)
    assert database.read_now(key_change.unready_hosts, change) == []


def test_stopped_and_other_processes_are_removed(database: Database) -> None:
    change = announced(database)
    for process in ("p1", "p2", "p3"):
        database.write_now(key_change.report, Holder(process, process), OLD)
    database.write_now(key_change.remove, Holder("p3", "p3"))
    assert database.read_now(key_change.unready_hosts, change) == ["p1", "p2"]
    database.write_now(key_change.remove_others, Holder("p2", "p2"))
    assert database.read_now(key_change.unready_hosts, change) == ["p2"]
