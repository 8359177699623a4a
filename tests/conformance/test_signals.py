"""Every wire case of subscriptions and shared signals, through the application."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from restante.database.database import Database
from restante.events.routes_stream_control import StreamControlRoutes
from restante.events.routes_streams import StreamRoutes
from restante.events.routes_subscriptions import SubscriptionRoutes
from restante.events.ssf_options import SignalsOptions
from tests.conformance.signals_cases import Case, Step, read_cases
from tests.events.desk import BASE, KEY, Desk, DeskClient, receiver_client

CASES = read_cases(Path(__file__).parent / "signals")


class Story:
    def __init__(self, database: Database) -> None:
        client, options = receiver_client(), SignalsOptions(issuer=BASE, base_url=BASE)
        routes = [
            *SubscriptionRoutes(database, client, ["", "/open-banking/v4.0"], None).routes(),
            *StreamRoutes(database, client, KEY, options).routes(),
            *StreamControlRoutes(database, options).routes(),
        ]
        self._desk = Desk(database, routes)
        self._callers: dict[str, DeskClient] = {
            "client": self._desk.new_client(),
            "other": self._desk.new_client(),
            "reader": self._desk.new_client("ssf.read"),
            "unscoped": self._desk.new_client("accounts"),
        }
        self._saved: dict[str, Any] = {"base": BASE}

    def filled(self, value: Any) -> Any:
        match value:
            case str():
                return re.sub(r"\{(\w+)\}", lambda name: str(self._saved.get(name[1], name[0])), value)
            case list():
                return [self.filled(each) for each in value]
            case dict():
                return {name: self.filled(each) for name, each in value.items()}
        return value

    async def ask(self, step: Step) -> httpx.Response:
        method, _, path = self.filled(step.request).partition(" ")
        if step.by == "nobody":
            return await self._desk.ask(method, path, headers=step.headers)
        return await self._callers[step.by].ask(method, path, self.filled(step.json), step.headers)

    def check(self, step: Step, answer: httpx.Response) -> None:
        expected = step.expected
        assert answer.status_code == expected.status, answer.text
        for name, value in expected.headers.items():
            assert answer.headers[name] == value
        if expected.is_empty:
            assert answer.content == b""
            return
        if expected.json is not None:
            assert answer.json() == self.filled(expected.json)
        for place, value in expected.has.items():
            assert look(answer.json(), place) == self.filled(value), place
        assert [name for name in expected.lacks if name in answer.json()] == []
        self._saved |= {name: look(answer.json(), place) for name, place in step.save.items()}


def look(found: Any, place: str) -> Any:
    for part in place.split("."):
        found = found[int(part)] if part.isdecimal() else found[part]
    return found


@pytest.mark.parametrize("case", [case for _name, case in CASES], ids=[name for name, _case in CASES])
async def test_case(database: Database, case: Case) -> None:
    assert case.why
    story = Story(database)
    for step in case.step:
        story.check(step, await story.ask(step))
