import uuid

from restante.core.nonce import new_nonce


def test_a_nonce_is_a_random_uuid_as_the_standard_library_reads_it() -> None:
    for _ in range(200):
        nonce = new_nonce()
        read = uuid.UUID(nonce)
        assert str(read) == nonce
        assert (read.version, read.variant) == (4, uuid.RFC_4122)


def test_no_two_are_alike_and_every_variant_comes() -> None:
    nonces = [new_nonce() for _ in range(2000)]
    assert len(set(nonces)) == 2000
    assert {nonce[19] for nonce in nonces} == set("89ab")
