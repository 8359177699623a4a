from restante.identity.token_memo import ExpiringTokenMemo


def test_caller_is_kept_until_it_expires() -> None:
    memo: ExpiringTokenMemo[str] = ExpiringTokenMemo()
    memo.keep(b"token", "caller", 100.0, memo.generation)
    assert memo.find(b"token", 99.0) == "caller"
    assert memo.find(b"token", 100.0) is None
    assert memo.find(b"other", 99.0) is None


def test_lookup_begun_before_forget_all_is_not_kept() -> None:
    memo: ExpiringTokenMemo[str] = ExpiringTokenMemo()
    generation = memo.generation
    memo.keep(b"before", "caller", 100.0, generation)
    memo.forget_all()
    memo.keep(b"late", "caller", 100.0, generation)
    assert memo.find(b"before", 0.0) is None
    assert memo.find(b"late", 0.0) is None
    assert len(memo) == 0


def test_full_memo_evicts_the_oldest_entries() -> None:
    memo: ExpiringTokenMemo[int] = ExpiringTokenMemo(2)
    for number in range(5):
        memo.keep(b"%d" % number, number, 100.0, memo.generation)
    assert len(memo) == 2
    assert memo.find(b"4", 0.0) == 4


def test_memo_of_size_zero_keeps_nothing() -> None:
    memo: ExpiringTokenMemo[str] = ExpiringTokenMemo(0)
    memo.keep(b"token", "caller", 100.0, memo.generation)
    assert len(memo) == 0
