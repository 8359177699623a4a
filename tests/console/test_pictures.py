"""Every page as pictures: three widths, light and dark. Nothing is compared; a page that does not fit its window, or
that axe refuses, fails.

The pictures are written to the folder that RESTANTE_PICTURES names, if it does.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.console.browser import check_accessibility
from tests.console.console_server import ConsoleServer
from tests.console.sample_data import Sample, add_sample

pytestmark = pytest.mark.slow

PHONE, TABLET, DESKTOP = 390, 820, 1440
WIDTHS = (DESKTOP, TABLET, PHONE)
SCHEMES = ("light", "dark")
FITS = "document.documentElement.scrollWidth <= innerWidth"
# Wide tables scroll within the page. On a desktop nobody must scroll to find the buttons of a row.
CUT_OFF = """
[...document.querySelectorAll(".acts button")].filter(button => {
    const table = button.closest("table").parentElement.getBoundingClientRect();
    return button.getBoundingClientRect().right > table.right;
}).map(button => button.getAttribute("aria-label") || button.textContent)
"""


@pytest.fixture(scope="module")
def sample(server: ConsoleServer) -> Sample:
    return add_sample(server)


def open_page(page: Page, path: str) -> None:
    """Open the page. The browser reports the 404 of a missing page as an error of its console: it is not opened so."""
    if path.endswith("no-such-page"):
        page.route("**/no-such-page", lambda route: route.fulfill(response=route.fetch(), status=200))
    page.goto(path)


def test_every_page_fits_every_window_and_has_no_violation_in_light_and_dark(
    sample: Sample, page_as: Callable[[str], Page], tmp_path: Path
) -> None:
    folder = Path(os.environ.get("RESTANTE_PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    page = page_as("admin")
    for name, path in sample.paths.items():
        page.set_viewport_size({"width": DESKTOP, "height": 900})
        open_page(page, path)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate(FITS), f"{path} at {width}"
            assert width != DESKTOP or page.evaluate(CUT_OFF) == [], path
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
                if (width, scheme) in ((DESKTOP, "light"), (PHONE, "dark")):
                    check_accessibility(page)
