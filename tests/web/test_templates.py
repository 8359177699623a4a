import subprocess
import sys
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from restante.web.templates import Templates


@pytest.fixture
def templates(tmp_path: Path) -> Templates:
    (tmp_path / "page.html").write_text("<p>{{ name }}</p>")
    return Templates(tmp_path)


def test_values_are_escaped(templates: Templates) -> None:
    assert templates.render("page.html", name="<b>") == "<p>&lt;b&gt;</p>"


def test_missing_value_raises(templates: Templates) -> None:
    with pytest.raises(UndefinedError):
        templates.render("page.html")


def test_server_start_does_not_import_jinja2() -> None:
    code = "import sys, restante.server.app; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
