import json

import jwt
import pytest

from restante.core.errors import BadInput, Conflict, NotFound
from restante.core.iso_time import iso
from restante.database.database import Database
from restante.events import event_keys
from restante.events.event_keys import NewKey, SealedEventKey
from restante.events.jws import ALGORITHMS
from restante.events.publishing import EventsToSign
from restante.identity.master_key import MasterKey, MasterKeyError
from tests.conftest import START_MS, ManualClock
from tests.events import bank
from tests.events.publishers import MASTER, rows

LEAD, OVERLAP = 3600, 86_400


def made(alg: str = "EdDSA") -> NewKey:
    return event_keys.make(MASTER, alg)


def stored(database: Database, alg: str = "EdDSA") -> NewKey:
    key = made(alg)
    database.write_now(event_keys.store_first, key)
    return key


def rotated(database: Database, alg: str = "EdDSA") -> NewKey:
    key = made(alg)
    database.write_now(event_keys.rotate, key, LEAD, OVERLAP, "tests")
    return key


def signing(database: Database, alg: str = "EdDSA") -> str | None:
    key = database.read_now(event_keys.signing, alg)
    return None if key is None else key.kid


def published(database: Database) -> list[str]:
    return [key["kid"] for key in database.read_now(event_keys.published)]


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_a_key_is_named_by_its_thumbprint_and_publishes_nothing_private(alg: str) -> None:
    key = made(alg)
    public = json.loads(key.public_jwk)
    assert (public["kid"], public["alg"], public["use"]) == (key.kid, alg, "sig")
    assert not {"d", "p", "q", "dp", "dq", "qi"} & set(public)
    assert jwt.PyJWK(public).key_id == key.kid


def test_a_private_key_is_opened_by_its_master_key_alone() -> None:
    key = made()
    sealed = SealedEventKey(key.kid, key.alg, key.sealed_key)
    assert event_keys.opened(MASTER, sealed)
    with pytest.raises(MasterKeyError):
        event_keys.opened(MasterKey(b"x" * 32), sealed)
    with pytest.raises(MasterKeyError):
        event_keys.opened(MASTER, sealed._replace(kid="another"))


def test_only_known_algorithms() -> None:
    assert event_keys.checked_algorithm("PS256") == "PS256"
    with pytest.raises(BadInput):
        event_keys.checked_algorithm("HS256")
    with pytest.raises(ValueError, match="no algorithm"):
        event_keys.make(MASTER, "none")


def test_the_first_key_signs_at_once_and_there_is_one_first(database: Database) -> None:
    first = stored(database)
    second = made()
    assert database.write_now(event_keys.store_first, second).kid == first.kid
    assert (signing(database), published(database)) == (first.kid, [first.kid])
    assert signing(database, "PS256") is None


def test_a_new_key_is_published_before_it_signs(database: Database, clock: ManualClock) -> None:
    first = stored(database)
    second = rotated(database)
    assert (signing(database), published(database)) == (first.kid, [second.kid, first.kid])
    assert [view.status for view in database.read_now(event_keys.views)] == ["coming", "signing"]
    clock.advance(LEAD)
    assert signing(database) == second.kid
    assert [view.status for view in database.read_now(event_keys.views)] == ["signing", "retired"]


def test_rotating_without_a_key_makes_the_first(database: Database) -> None:
    key = rotated(database)
    assert signing(database) == key.kid


def test_a_replaced_key_is_published_until_its_overlap_is_over(database: Database, clock: ManualClock) -> None:
    first, second = stored(database), rotated(database)
    clock.advance(LEAD + OVERLAP - 1)
    assert database.write_now(event_keys.forget_retired) == 0
    clock.advance(1)
    assert database.write_now(event_keys.forget_retired) == 1
    assert published(database) == [second.kid]
    assert first.kid not in published(database)


def test_a_replaced_key_is_published_while_its_tokens_wait(database: Database, clock: ManualClock) -> None:
    first = stored(database)
    rotated(database)
    tpp = database.write_now(bank.add_client)
    database.write_now(bank.put_ready, tpp.id, "j1")
    database.write_now(bank.sign_under, "j1", first.kid)
    clock.advance(LEAD + OVERLAP)
    assert database.write_now(event_keys.forget_retired) == 0
    assert first.kid in published(database)
    database.write_now(bank.finish, "j1")
    assert database.write_now(event_keys.forget_retired) == 1


def test_keys_are_due_when_the_newest_is_old(database: Database, clock: ManualClock) -> None:
    stored(database)
    stored(database, "ES256")
    clock.advance(30 * 86_400)
    assert database.read_now(event_keys.due_algorithms, 30) == ["ES256", "EdDSA"]
    key = made()
    assert database.write_now(event_keys.rotate_if_due, key, 30, LEAD, OVERLAP)
    assert not database.write_now(event_keys.rotate_if_due, made(), 30, LEAD, OVERLAP)
    assert database.read_now(event_keys.due_algorithms, 30) == ["ES256"]
    assert published(database)[0] == key.kid


def test_a_withdrawn_key_is_out_at_once_and_another_signs(database: Database) -> None:
    leaked, successor = stored(database), made()
    assert database.write_now(event_keys.withdraw, leaked.kid, successor, "tests") == 0
    assert (signing(database), published(database)) == (successor.kid, [successor.kid])
    views = {view.kid: view for view in database.read_now(event_keys.views)}
    assert (views[leaked.kid].status, views[leaked.kid].withdrawn_at) == ("withdrawn", iso(START_MS))


def test_a_key_that_waits_for_its_time_takes_over(database: Database) -> None:
    leaked, coming, unused = stored(database), rotated(database), made()
    database.write_now(event_keys.withdraw, leaked.kid, unused, "tests")
    assert (signing(database), published(database)) == (coming.kid, [coming.kid])


def test_a_key_that_does_not_sign_can_be_withdrawn(database: Database, clock: ManualClock) -> None:
    old, new = stored(database), rotated(database)
    clock.advance(LEAD)
    database.write_now(event_keys.withdraw, old.kid, made(), "tests")
    assert (signing(database), published(database)) == (new.kid, [new.kid])


def test_unseen_tokens_of_a_withdrawn_key_are_signed_again(database: Database) -> None:
    leaked = stored(database)
    tpp = database.write_now(bank.add_client)
    for jti in ("seen", "unseen", "pushed", "other"):
        database.write_now(bank.put_ready, tpp.id, jti)
        database.write_now(bank.sign_under, jti, "another" if jti == "other" else leaked.kid)
    database.write_now(bank.hand_out, tpp.id, "seen")
    database.write_now(bank.note_push, "pushed")
    heard: list[object] = []
    database.on_commit(heard.extend)
    assert database.write_now(event_keys.withdraw, leaked.kid, made(), "tests") == 1
    assert heard == [EventsToSign(0)]
    assert {row["jti"]: row["status"] for row in rows(database)} == {
        "seen": "ready",
        "unseen": "unsigned",
        "pushed": "ready",
        "other": "ready",
    }


def test_what_cannot_be_withdrawn(database: Database) -> None:
    leaked = stored(database)
    with pytest.raises(NotFound):
        database.write_now(event_keys.withdraw, "unknown", made(), "tests")
    with pytest.raises(ValueError, match="another algorithm"):
        database.write_now(event_keys.withdraw, leaked.kid, made("ES256"), "tests")
    database.write_now(event_keys.withdraw, leaked.kid, made(), "tests")
    with pytest.raises(Conflict):
        database.write_now(event_keys.withdraw, leaked.kid, made(), "tests")


def test_the_algorithm_of_a_key(database: Database) -> None:
    key = stored(database, "ES256")
    assert database.read_now(event_keys.algorithm_of, key.kid) == "ES256"
    with pytest.raises(NotFound):
        database.read_now(event_keys.algorithm_of, "unknown")
