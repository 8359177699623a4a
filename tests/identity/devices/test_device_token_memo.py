from restante.identity.callers import DeviceCaller
from restante.identity.devices.device_token_memo import DeviceTokenMemo


def caller(device_id: int, expires_at: float = 100.0) -> DeviceCaller:
    return DeviceCaller(device_id, 1, expires_at)


def keep(memo: DeviceTokenMemo, token: bytes, caller: DeviceCaller, generation: int) -> None:
    memo.keep(token, caller, caller.expires_at, generation)


def filled(entries_max: int = 100) -> DeviceTokenMemo:
    memo = DeviceTokenMemo(entries_max, longest_seconds=50)
    for n in range(5):
        keep(memo, b"token %d" % n, caller(n), memo.generation)
    return memo


def test_kept_token_is_found_until_it_expires() -> None:
    memo = filled()
    assert memo.find(b"token 3", 99.9) == caller(3)
    assert memo.find(b"token 3", 100.0) is None
    assert memo.find(b"token 9", 0.0) is None


def test_forget_device_ends_the_tokens_of_that_device_only() -> None:
    memo = filled()
    keep(memo, b"another", caller(3), memo.generation)
    memo.forget_device(3, 0.0)
    assert memo.find(b"token 3", 1.0) is None
    assert memo.find(b"another", 1.0) is None
    assert memo.find(b"token 4", 1.0) == caller(4)


def test_token_kept_after_the_revocation_does_not_count() -> None:
    memo = DeviceTokenMemo(10, longest_seconds=50)
    generation = memo.generation
    memo.forget_device(3, 0.0)
    keep(memo, b"late", caller(3), generation)
    assert memo.find(b"late", 1.0) is None


def test_forget_all_drops_entries_and_running_lookups() -> None:
    memo = filled()
    generation = memo.generation
    memo.forget_all()
    assert memo.find(b"token 3", 0.0) is None
    keep(memo, b"looked up before", caller(3), generation)
    assert memo.find(b"looked up before", 0.0) is None
    keep(memo, b"looked up after", caller(3), memo.generation)
    assert memo.find(b"looked up after", 0.0) == caller(3)


def test_full_memo_evicts_the_oldest_entries() -> None:
    memo = DeviceTokenMemo(128, longest_seconds=50)
    for n in range(129):
        keep(memo, b"%d" % n, caller(n), memo.generation)
    assert len(memo) == 127
    assert memo.find(b"0", 0.0) is None
    assert memo.find(b"1", 0.0) is None
    assert memo.find(b"2", 0.0) == caller(2)
    assert memo.find(b"128", 0.0) == caller(128)


def test_memo_of_size_one_and_zero() -> None:
    one, none = DeviceTokenMemo(1, 50), DeviceTokenMemo(0, 50)
    for memo in (one, none):
        keep(memo, b"a", caller(1), memo.generation)
        keep(memo, b"b", caller(2), memo.generation)
    assert (len(one), len(none)) == (1, 0)
    assert one.find(b"b", 0.0) == caller(2)


def test_revoked_ids_are_dropped_once_their_tokens_must_have_expired() -> None:
    memo = DeviceTokenMemo(10, longest_seconds=50)
    for n in range(1023):
        memo.forget_device(n, 0.0)
    memo.forget_device(5000, 50.0)
    assert memo._revoked.keys() == {5000}


def test_altered_token_is_not_found() -> None:
    """Not even one that has the same signature."""
    token = b"header.payload." + b"s" * 86
    memo = DeviceTokenMemo(10, longest_seconds=60.0)
    memo.keep(token, DeviceCaller(1, 1, 100.0), 100.0, memo.generation)
    assert memo.find(token, 0.0) == DeviceCaller(1, 1, 100.0)
    for position in range(len(token)):
        altered = token[:position] + b"X" + token[position + 1 :]
        assert memo.find(altered, 0.0) is None
    for other in (token[1:], b"h" + token, token + b"s", b""):
        assert memo.find(other, 0.0) is None
