"""The pictures of the docs are those of the stored results, and can be read without seeing them."""

import json
from xml.etree import ElementTree

import pytest

from bench.charts.draw import PICTURES, RESULTS, pictures

SVG = "{http://www.w3.org/2000/svg}"
DRAWN = pictures(json.loads(RESULTS.read_text()))


@pytest.mark.parametrize("name", DRAWN)
def test_picture_is_the_one_of_the_stored_results(name: str) -> None:
    assert (PICTURES / name).read_text() == DRAWN[name]


@pytest.mark.parametrize("name", DRAWN)
def test_picture_has_its_figures_as_text_and_states_the_machine(name: str) -> None:
    root = ElementTree.fromstring(DRAWN[name])
    described = root.findtext(f"{SVG}desc")
    texts = " ".join(each.text or "" for each in root.iter(f"{SVG}text"))
    assert root.findtext(f"{SVG}title", "no title") in texts
    assert described is not None
    assert "Restante" in described
    assert json.loads(RESULTS.read_text())["machine"].split(",")[0] in texts
