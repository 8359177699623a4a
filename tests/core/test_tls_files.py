import ssl
from pathlib import Path

import pytest

from restante.core.tls_files import no_password, why_unusable


def test_key_with_a_password_is_refused_without_a_prompt() -> None:
    with pytest.raises(ValueError, match="protected by a password"):
        no_password()


def test_every_error_has_a_readable_text(tmp_path: Path) -> None:
    context = ssl.create_default_context()
    absent, empty = tmp_path / "absent.pem", tmp_path / "empty.pem"
    empty.write_text("nothing")
    with pytest.raises(OSError, match="No such file") as raised:
        context.load_verify_locations(absent)
    assert why_unusable(raised.value) == "No such file or directory"
    with pytest.raises(ssl.SSLError) as refused:
        context.load_verify_locations(empty)
    assert why_unusable(refused.value).startswith("not valid PEM")
    assert why_unusable(ValueError("why")) == "why"
