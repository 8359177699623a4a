"""Saved filters of lists: saved by a form, shown to their owner only, deleted."""

import re

import pytest

from tests.console.console_server import ConsoleServer

# A filter of each list as its own page shows it.
FILTERS = [
    ("commands", "/console/commands", {"status": "failed", "by": "ada & co"}),
    ("events", "/console/events", {"status": "errored", "err": "jwtIss"}),
    ("outbox", "/console/outbox", {"status": "FAILED", "device": "7"}),
    ("audit", "/console/audit/commands", {"event": "command.created", "since": "2026-01-18T10:00"}),
]


@pytest.mark.parametrize(("list_name", "path", "fields"), FILTERS)
def test_filter_is_saved_shown_and_deleted(
    server: ConsoleServer, list_name: str, path: str, fields: dict[str, str]
) -> None:
    with server.client("admin") as admin:
        page = admin.http.get(path, params=fields).text
        # The form of the page has the filter.
        given = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form_of(page)))
        assert given.pop("form_token")
        assert given.keys() == {"list", *fields}
        done = admin.post("/console/saved-filters", list=list_name, filter_name=f"my {list_name}", **fields)
        assert done.status_code == 303
        page = admin.get(done.headers["location"]).text
        assert "The filter is saved." in page
        link = re.search(rf'<a href="([^"]+)" aria-current="true">my {list_name}</a>', page)
        assert link
        assert f">my {list_name}</a>" in admin.get(path).text
        again = admin.post("/console/saved-filters", list=list_name, filter_name=f"my {list_name}", **fields)
        assert (again.status_code, "already" in again.text) == (409, True)
        delete = re.search(r"/console/saved-filters/(\d+)/delete", page)
        assert delete
        gone = admin.post(delete[0])
        assert gone.headers["location"] == f"{path}?done=filter-deleted"
        assert f"my {list_name}" not in admin.get(path).text
        assert admin.post(delete[0]).status_code == 404


def test_filter_of_another_person_is_neither_shown_nor_deleted(server: ConsoleServer) -> None:
    fields = {"list": "commands", "status": "failed", "filter_name": "private view"}
    with server.client("site") as site, server.client("admin") as admin:
        page = site.get(site.post("/console/saved-filters", **fields).headers["location"]).text
        delete = re.search(r"/console/saved-filters/\d+/delete", page)
        assert delete
        assert "private view" not in admin.get("/console/commands?status=failed").text
        assert admin.post(delete[0]).status_code == 404
        assert "private view" in site.get("/console/commands").text


def test_wrong_forms_are_refused(server: ConsoleServer) -> None:
    with server.client("admin") as admin:
        unknown = admin.post("/console/saved-filters", list="devices", status="active", filter_name="x")
        assert (unknown.status_code, "one of commands, events, outbox, audit" in unknown.text) == (400, True)
        # A field that the list does not have is not saved.
        empty = admin.post("/console/saved-filters", list="events", site="1", filter_name="x")
        assert (empty.status_code, "at least one field" in empty.text) == (400, True)
        unnamed = admin.post("/console/saved-filters", list="events", err="x", filter_name=" ")
        assert (unnamed.status_code, "1 to 63 characters" in unnamed.text) == (400, True)


def form_of(page: str) -> str:
    begin = page.index('action="/console/saved-filters"')
    return page[begin : page.index("</form>", begin)]
