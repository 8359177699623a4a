import dataclasses
import json

import jwt
import pytest

from restante.core.errors import BadInput, Conflict, NotFound
from restante.core.iso_time import iso_precise
from restante.database.database import Database
from restante.events.publishing.publishing import EventsToSign
from restante.events.signing import event_keys
from restante.events.signing.event_keys import NewEventKey, SealedEventKey
from restante.events.signing.jws import ALGORITHMS
from restante.identity.master_key import MasterKey, MasterKeyError
from tests.conftest import START_MS, ManualClock
from tests.events import inbox_fixture
from tests.events.publish_fixture import MASTER, inbox_rows

LEAD, OVERLAP = 3600, 86_400


def generate(alg: str = "EdDSA") -> NewEventKey:
    return event_keys.generate(MASTER, alg)


def store_first(database: Database, alg: str = "EdDSA") -> NewEventKey:
    key = generate(alg)
    database.write_now(event_keys.store_first, key)
    return key


def rotate(database: Database, alg: str = "EdDSA") -> NewEventKey:
    key = generate(alg)
    database.write_now(event_keys.rotate, key, LEAD, OVERLAP, "tests")
    return key


def current_kid(database: Database, alg: str = "EdDSA") -> str | None:
    key = database.read_now(event_keys.current_key, alg)
    return None if key is None else key.kid


def published_kids(database: Database) -> list[str]:
    return [key["kid"] for key in database.read_now(event_keys.published_jwks)]


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_kid_is_the_thumbprint_and_public_jwk_has_no_private_part(alg: str) -> None:
    key = generate(alg)
    public = json.loads(key.public_jwk)
    assert (public["kid"], public["alg"], public["use"]) == (key.kid, alg, "sig")
    assert not {"d", "p", "q", "dp", "dq", "qi"} & set(public)
    assert jwt.PyJWK(public).key_id == key.kid


def test_private_key_opens_only_with_its_master_key_and_kid() -> None:
    key = generate()
    sealed = SealedEventKey(key.kid, key.alg, key.sealed_key)
    assert event_keys.open_private_key(MASTER, sealed)
    with pytest.raises(MasterKeyError):
        event_keys.open_private_key(MasterKey(b"x" * 32), sealed)
    with pytest.raises(MasterKeyError):
        event_keys.open_private_key(MASTER, dataclasses.replace(sealed, kid="another"))


def test_unknown_algorithm_is_refused() -> None:
    assert event_keys.check_algorithm("PS256") == "PS256"
    with pytest.raises(BadInput):
        event_keys.check_algorithm("HS256")
    with pytest.raises(ValueError, match="cannot be signed"):
        event_keys.generate(MASTER, "none")


def test_first_key_signs_at_once_and_a_second_first_key_is_ignored(database: Database) -> None:
    first = store_first(database)
    second = generate()
    assert database.write_now(event_keys.store_first, second).kid == first.kid
    assert (current_kid(database), published_kids(database)) == (first.kid, [first.kid])
    assert current_kid(database, "PS256") is None


def test_new_key_is_published_before_it_signs(database: Database, clock: ManualClock) -> None:
    first = store_first(database)
    second = rotate(database)
    assert (current_kid(database), published_kids(database)) == (first.kid, [second.kid, first.kid])
    assert [view.status for view in database.read_now(event_keys.list_views)] == ["coming", "signing"]
    clock.advance(LEAD)
    assert current_kid(database) == second.kid
    assert [view.status for view in database.read_now(event_keys.list_views)] == ["signing", "retired"]


def test_rotation_without_a_key_stores_the_first(database: Database) -> None:
    key = rotate(database)
    assert current_kid(database) == key.kid


def test_replaced_key_is_published_until_its_overlap_ends(database: Database, clock: ManualClock) -> None:
    first, second = store_first(database), rotate(database)
    clock.advance(LEAD + OVERLAP - 1)
    assert database.write_now(event_keys.forget_retired) == 0
    clock.advance(1)
    assert database.write_now(event_keys.forget_retired) == 1
    assert published_kids(database) == [second.kid]
    assert first.kid not in published_kids(database)


def test_replaced_key_is_published_while_its_tokens_wait(database: Database, clock: ManualClock) -> None:
    first = store_first(database)
    rotate(database)
    tpp = database.write_now(inbox_fixture.add_client)
    database.write_now(inbox_fixture.put_ready, tpp.id, "j1")
    database.write_now(inbox_fixture.set_kid, "j1", first.kid)
    clock.advance(LEAD + OVERLAP)
    assert database.write_now(event_keys.forget_retired) == 0
    assert first.kid in published_kids(database)
    database.write_now(inbox_fixture.acknowledge, "j1")
    assert database.write_now(event_keys.forget_retired) == 1


def test_keys_are_due_when_the_newest_is_old(database: Database, clock: ManualClock) -> None:
    store_first(database)
    store_first(database, "ES256")
    clock.advance(30 * 86_400)
    assert database.read_now(event_keys.due_algorithms, 30) == ["ES256", "EdDSA"]
    key = generate()
    assert database.write_now(event_keys.rotate_if_due, key, 30, LEAD, OVERLAP)
    assert not database.write_now(event_keys.rotate_if_due, generate(), 30, LEAD, OVERLAP)
    assert database.read_now(event_keys.due_algorithms, 30) == ["ES256"]
    # The EC key comes first, then the OKP keys, the newest first.
    assert published_kids(database)[1] == key.kid


def test_withdrawn_key_is_unpublished_at_once_and_its_successor_signs(database: Database) -> None:
    leaked, successor = store_first(database), generate()
    assert database.write_now(event_keys.withdraw, leaked.kid, successor, "tests") == 0
    assert (current_kid(database), published_kids(database)) == (successor.kid, [successor.kid])
    views = {view.kid: view for view in database.read_now(event_keys.list_views)}
    assert (views[leaked.kid].status, views[leaked.kid].withdrawn_at) == ("withdrawn", iso_precise(START_MS))


def test_key_in_its_lead_replaces_a_withdrawn_key(database: Database) -> None:
    leaked, coming, unused = store_first(database), rotate(database), generate()
    database.write_now(event_keys.withdraw, leaked.kid, unused, "tests")
    assert (current_kid(database), published_kids(database)) == (coming.kid, [coming.kid])


def test_retired_key_can_be_withdrawn(database: Database, clock: ManualClock) -> None:
    old, new = store_first(database), rotate(database)
    clock.advance(LEAD)
    database.write_now(event_keys.withdraw, old.kid, generate(), "tests")
    assert (current_kid(database), published_kids(database)) == (new.kid, [new.kid])


def test_undelivered_tokens_of_a_withdrawn_key_are_signed_again(database: Database) -> None:
    leaked = store_first(database)
    tpp = database.write_now(inbox_fixture.add_client)
    for jti in ("seen", "unseen", "pushed", "other"):
        database.write_now(inbox_fixture.put_ready, tpp.id, jti)
        database.write_now(inbox_fixture.set_kid, jti, "another" if jti == "other" else leaked.kid)
    database.write_now(inbox_fixture.deliver, tpp.id, "seen")
    database.write_now(inbox_fixture.record_push_attempt, "pushed")
    commit_events: list[object] = []
    database.on_commit(commit_events.extend)
    assert database.write_now(event_keys.withdraw, leaked.kid, generate(), "tests") == 1
    assert commit_events == [EventsToSign(0)]
    assert {row["jti"]: row["status"] for row in inbox_rows(database)} == {
        "seen": "ready",
        "unseen": "unsigned",
        "pushed": "ready",
        "other": "ready",
    }


def test_invalid_withdrawal_is_refused(database: Database) -> None:
    leaked = store_first(database)
    with pytest.raises(NotFound):
        database.write_now(event_keys.withdraw, "unknown", generate(), "tests")
    with pytest.raises(ValueError, match="another algorithm"):
        database.write_now(event_keys.withdraw, leaked.kid, generate("ES256"), "tests")
    database.write_now(event_keys.withdraw, leaked.kid, generate(), "tests")
    with pytest.raises(Conflict):
        database.write_now(event_keys.withdraw, leaked.kid, generate(), "tests")


def test_algorithm_of_a_key_is_read(database: Database) -> None:
    key = store_first(database, "ES256")
    assert database.read_now(event_keys.algorithm_of, key.kid) == "ES256"
    with pytest.raises(NotFound):
        database.read_now(event_keys.algorithm_of, "unknown")
