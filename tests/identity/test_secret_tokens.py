import hashlib

from restante.identity import secret_tokens


def test_tokens_are_new_each_time_and_carry_their_prefix() -> None:
    tokens = {secret_tokens.make("x_") for _ in range(100)}
    assert len(tokens) == 100
    assert all(token.startswith("x_") and len(token) == 2 + 43 for token in tokens)


def test_what_is_kept_is_the_digest() -> None:
    assert secret_tokens.digest("abc") == hashlib.sha256(b"abc").digest()


def test_any_text_has_a_digest() -> None:
    assert len(secret_tokens.digest("\ud800")) == 32
