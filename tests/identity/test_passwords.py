import time

import pytest
from argon2 import extract_parameters

from restante.core.errors import BadInput
from restante.identity import passwords
from tests.identity.population import PASSWORD, password_hash


def test_the_right_password_and_a_wrong_one() -> None:
    assert passwords.is_right(password_hash(), PASSWORD)
    assert not passwords.is_right(password_hash(), PASSWORD + "x")


def test_hashes_are_argon2id_and_salted() -> None:
    assert password_hash().startswith("$argon2id$")
    assert PASSWORD not in password_hash()
    assert passwords.hash_password(PASSWORD) != password_hash()


def test_nobodys_hash_costs_what_a_real_one_costs_and_fits_nothing() -> None:
    assert extract_parameters(passwords.NOBODYS_HASH) == extract_parameters(password_hash())
    assert not passwords.is_right(None, PASSWORD)
    started = time.process_time()
    passwords.is_right(None, "x")
    assert time.process_time() - started > 0.005


def test_a_damaged_hash_fits_nothing() -> None:
    assert not passwords.is_right("not a hash", PASSWORD)


@pytest.mark.parametrize("password", ["", "ninechars", "x" * 1025])
def test_too_short_or_too_long_for_a_new_one(password: str) -> None:
    with pytest.raises(BadInput) as refused:
        passwords.check_new(password)
    assert refused.value.field == "password"


def test_ten_characters_are_enough() -> None:
    passwords.check_new("x" * 10)
