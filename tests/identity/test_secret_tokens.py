import hashlib

from restante.identity import secret_tokens


def test_tokens_are_unique_and_have_the_prefix() -> None:
    tokens = {secret_tokens.make("x_") for _ in range(100)}
    assert len(tokens) == 100
    assert all(token.startswith("x_") and len(token) == 2 + 43 for token in tokens)


def test_digest_is_sha256() -> None:
    assert secret_tokens.digest("abc") == hashlib.sha256(b"abc").digest()


def test_digest_accepts_invalid_unicode() -> None:
    assert len(secret_tokens.digest("\ud800")) == 32
