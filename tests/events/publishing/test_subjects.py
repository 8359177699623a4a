from restante.events.publishing.subjects import COMBINED_MEMBERS_MAX, matching_digests, subject_digest

ADA = {"format": "email", "email": "ada@example.com"}
PHONE = {"format": "opaque", "id": "phone"}
SESSION = {"format": "opaque", "id": "session"}


def test_order_of_members_does_not_matter() -> None:
    assert subject_digest(ADA) == subject_digest({"email": "ada@example.com", "format": "email"})
    assert subject_digest(ADA) != subject_digest({**ADA, "email": "bob@example.com"})


def test_simple_subject_matches_itself_only() -> None:
    assert matching_digests(ADA) == [subject_digest(ADA)]


def test_aliases_match_each_identifier() -> None:
    aliases = {"format": "aliases", "identifiers": [ADA, PHONE]}
    assert matching_digests(aliases) == [subject_digest(aliases), subject_digest(ADA), subject_digest(PHONE)]


def test_complex_subject_matches_its_members_and_their_combinations() -> None:
    whole = {"format": "complex", "user": ADA, "device": PHONE, "session": SESSION}
    found = matching_digests(whole)
    assert found[0] == subject_digest(whole)
    assert subject_digest(ADA) in found
    assert subject_digest({"format": "complex", "user": ADA}) in found
    assert subject_digest({"format": "complex", "device": PHONE, "user": ADA}) in found
    assert subject_digest({"format": "complex", "user": PHONE}) not in found


def test_combinations_are_bounded() -> None:
    parts = {f"m{n}": {"format": "opaque", "id": str(n)} for n in range(COMBINED_MEMBERS_MAX + 1)}
    assert len(matching_digests({"format": "complex", **parts})) == 1 + len(parts)
