"""The page for developers of clients: it shows the settings, escapes values, and matches the documentation."""

import re
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from restante.database.database import Database
from restante.events.portal.content import PortalFacts, as_markdown, sections
from restante.server.config.options import portal_facts
from restante.server.config.settings import Settings
from tests.events.default_options import api_paths
from tests.events.portal.portal_app import PortalApp

DOCUMENTED = Path(__file__).parents[3] / "docs" / "event-portal.md"


@pytest.fixture
def facts() -> PortalFacts:
    return portal_facts(Settings())


async def page_of(database: Database, facts: PortalFacts, path: str = "/developer") -> httpx.Response:
    return await PortalApp(database, facts).request("GET", path)


def test_documentation_matches_the_page_with_default_settings(facts: PortalFacts) -> None:
    assert DOCUMENTED.read_text("utf-8") == as_markdown(sections(facts, "https://bank.example"))


async def test_page_shows_all_facts(database: Database, facts: PortalFacts) -> None:
    response = await page_of(database, facts)
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    text = re.sub(r"<[^>]+>", "", response.text)
    for section in sections(facts, facts.base_url):
        assert section.title in text
        for fact in section.facts:
            assert fact.name in text
            assert fact.value.replace("'", "&#39;") in text


async def test_page_follows_the_settings(database: Database) -> None:
    settings = Settings(
        events_max=7,
        events_wait_seconds=0,
        redelivery_after_sec=120,
        redeliver_errored=True,
        events_keep_acknowledged_days=3,
        push_attempts_max=5,
        push_circuit_failures=9,
        ssf_default_subjects="NONE",
        public_url="https://public.example",
    )
    text = (await page_of(database, portal_facts(settings))).text
    for expected in (
        "7; a larger value means 7",
        "Not supported: responses come at once",
        "delivered again after 2 minutes",
        "reported in setErrs is delivered again",
        "evicted after 3 days",
        "5 attempts",
        "After 9 failures",
        "None until added",
        "https://public.example/token",
    ):
        assert expected in text


async def test_values_are_escaped(database: Database, facts: PortalFacts) -> None:
    response = await page_of(database, replace(facts, paths=api_paths(v4="/<script>")))
    assert "<script>" not in response.text


async def test_stylesheet_is_served(database: Database, facts: PortalFacts) -> None:
    response = await page_of(database, facts, "/assets/portal.css")
    assert response.headers["content-type"] == "text/css; charset=utf-8"
    assert "prefers-color-scheme: dark" in response.text


async def test_host_header_does_not_change_the_page(database: Database, facts: PortalFacts) -> None:
    response = await PortalApp(database, facts).request("GET", "/developer", headers={"host": "evil.example"})
    assert response.status_code == 200
    assert "evil.example" not in response.text
