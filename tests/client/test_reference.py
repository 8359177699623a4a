"""The reference of the client package is that of its docstrings."""

from tests.client import reference


def test_page_is_current() -> None:
    """`python -m tests.client.reference` writes it."""
    assert reference.PAGE.read_text(encoding="utf-8") == reference.build()


def test_every_method_has_a_docstring() -> None:
    methods = [line for line in reference.build().splitlines() if line.startswith("- `")]
    assert len(methods) > 50
    assert [line for line in methods if "`: " not in line] == []
