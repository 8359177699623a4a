"""The page for clients' developers: it says what is in force, escapes what it shows, and the docs say the same."""

import re
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from restante.database.database import Database
from restante.events.portal import PortalFacts, PortalRoutes, as_markdown, sections
from restante.server.options import portal_facts
from restante.server.settings import Settings
from tests.events.desk import BASE, Desk

DOCUMENTED = Path(__file__).parents[2] / "docs" / "event-portal.md"


@pytest.fixture
def facts() -> PortalFacts:
    return portal_facts(Settings())


async def page_of(database: Database, facts: PortalFacts, path: str = "/developer") -> httpx.Response:
    return await Desk(database, PortalRoutes(facts).routes()).ask("GET", path)


def test_the_documentation_is_the_page_with_the_default_settings(facts: PortalFacts) -> None:
    assert DOCUMENTED.read_text("utf-8") == as_markdown(sections(facts, "https://bank.example"))


async def test_the_page_says_all_of_it(database: Database, facts: PortalFacts) -> None:
    answer = await page_of(database, facts)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    said = re.sub(r"<[^>]+>", "", answer.text)
    for section in sections(facts, BASE):
        assert section.title in said
        for fact in section.facts:
            assert fact.name in said
            assert fact.value.replace("'", "&#39;") in said


async def test_it_follows_the_settings(database: Database) -> None:
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
    said = (await page_of(database, portal_facts(settings))).text
    for expected in (
        "7; a larger value means 7",
        "Not supported: answers come at once",
        "comes again after 2 minutes",
        "reported in setErrs is delivered again",
        "evicted after 3 days",
        "5 attempts",
        "After 9 failures",
        "None until added",
        "https://public.example/token",
    ):
        assert expected in said


async def test_what_it_shows_is_escaped(database: Database, facts: PortalFacts) -> None:
    answer = await page_of(database, replace(facts, base="/<script>"))
    assert "<script>" not in answer.text


async def test_it_looks_like_something(database: Database, facts: PortalFacts) -> None:
    answer = await page_of(database, facts, "/assets/portal.css")
    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert "prefers-color-scheme: dark" in answer.text


async def test_a_host_that_is_none_is_refused(database: Database, facts: PortalFacts) -> None:
    desk = Desk(database, PortalRoutes(facts).routes())
    answer = await desk.ask("GET", "/developer", headers={"host": "a b"})
    assert answer.status_code == 400
