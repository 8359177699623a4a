from restante.events.subjects import COMBINED_MEMBERS_MAX, digest, digests

ADA = {"format": "email", "email": "ada@example.com"}
PHONE = {"format": "opaque", "id": "phone"}
SESSION = {"format": "opaque", "id": "session"}


def test_the_order_of_members_does_not_matter() -> None:
    assert digest(ADA) == digest({"email": "ada@example.com", "format": "email"})
    assert digest(ADA) != digest({**ADA, "email": "bob@example.com"})


def test_a_simple_subject_is_followed_as_itself() -> None:
    assert digests(ADA) == [digest(ADA)]


def test_aliases_are_followed_by_each_name() -> None:
    aliases = {"format": "aliases", "identifiers": [ADA, PHONE]}
    assert digests(aliases) == [digest(aliases), digest(ADA), digest(PHONE)]


def test_a_complex_subject_is_followed_by_its_parts_and_what_says_less() -> None:
    whole = {"format": "complex", "user": ADA, "device": PHONE, "session": SESSION}
    found = digests(whole)
    assert found[0] == digest(whole)
    assert digest(ADA) in found
    assert digest({"format": "complex", "user": ADA}) in found
    assert digest({"format": "complex", "device": PHONE, "user": ADA}) in found
    assert digest({"format": "complex", "user": PHONE}) not in found


def test_combinations_are_bounded() -> None:
    parts = {f"m{n}": {"format": "opaque", "id": str(n)} for n in range(COMBINED_MEMBERS_MAX + 1)}
    assert len(digests({"format": "complex", **parts})) == 1 + len(parts)
