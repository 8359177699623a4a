from restante.identity.callers import DeviceCaller
from restante.identity.token_cache import TokenCache


def caller(device_id: int, expires_at: float = 100.0) -> DeviceCaller:
    return DeviceCaller(device_id, 1, expires_at)


def filled(entries_max: int = 100) -> TokenCache:
    cache = TokenCache(entries_max, longest_seconds=50)
    for n in range(5):
        cache.keep(b"token %d" % n, caller(n), cache.generation)
    return cache


def test_a_kept_token_is_found_until_it_expires() -> None:
    cache = filled()
    assert cache.find(b"token 3", 99.9) == caller(3)
    assert cache.find(b"token 3", 100.0) is None
    assert cache.find(b"token 9", 0.0) is None


def test_forgetting_a_device_ends_all_its_tokens_and_nobody_elses() -> None:
    cache = filled()
    cache.keep(b"another", caller(3), cache.generation)
    cache.forget_device(3, 0.0)
    assert cache.find(b"token 3", 1.0) is None
    assert cache.find(b"another", 1.0) is None
    assert cache.find(b"token 4", 1.0) == caller(4)


def test_a_token_verified_before_and_kept_after_the_revocation_does_not_count() -> None:
    cache = TokenCache(10, longest_seconds=50)
    generation = cache.generation
    cache.forget_device(3, 0.0)
    cache.keep(b"late", caller(3), generation)
    assert cache.find(b"late", 1.0) is None


def test_forgetting_all() -> None:
    cache = filled()
    generation = cache.generation
    cache.forget_all()
    assert cache.find(b"token 3", 0.0) is None
    cache.keep(b"looked up before", caller(3), generation)
    assert cache.find(b"looked up before", 0.0) is None
    cache.keep(b"looked up after", caller(3), cache.generation)
    assert cache.find(b"looked up after", 0.0) == caller(3)


def test_the_oldest_go_when_it_is_full() -> None:
    cache = TokenCache(128, longest_seconds=50)
    for n in range(129):
        cache.keep(b"%d" % n, caller(n), cache.generation)
    assert len(cache) == 127
    assert cache.find(b"0", 0.0) is None
    assert cache.find(b"1", 0.0) is None
    assert cache.find(b"2", 0.0) == caller(2)
    assert cache.find(b"128", 0.0) == caller(128)


def test_a_cache_of_one_and_of_none() -> None:
    one, none = TokenCache(1, 50), TokenCache(0, 50)
    for cache in (one, none):
        cache.keep(b"a", caller(1), cache.generation)
        cache.keep(b"b", caller(2), cache.generation)
    assert (len(one), len(none)) == (1, 0)
    assert one.find(b"b", 0.0) == caller(2)


def test_revoked_ids_are_forgotten_once_no_token_can_be_left() -> None:
    cache = TokenCache(10, longest_seconds=50)
    for n in range(1023):
        cache.forget_device(n, 0.0)
    cache.forget_device(5000, 50.0)
    assert cache._revoked.keys() == {5000}
