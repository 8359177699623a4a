"""Filters of query parameters and JSON objects: one set of fields, and errors that name the field."""

from typing import Any

import pytest

from restante.core.errors import BadInput
from restante.updates.fleet.device_filter import DeviceFilter, parse_object, parse_query, time_ms

NOW_MS = 1_800_000_000_000


def test_query_and_object_give_the_same_filter() -> None:
    fields: dict[str, Any] = {
        "name": "berlin",
        "tag": "a,b",
        "status": "active",
        "config_version": "behind",
        "seen_before": "1h",
        "overdue": True,
        "certificate_expires_before": "30d",
        "user_id": 7,
        "group": "pilot",
    }
    query = [(name, str(value).lower() if value is True else str(value)) for name, value in fields.items()]
    assert parse_query([*query, ("limit", "5")], ["limit"]) == parse_object(fields)
    assert parse_object(fields).tags == ["a", "b"]
    assert parse_object({"config_version": 6}) == DeviceFilter(config_version=6)
    assert parse_object({}).is_empty
    assert parse_object({"name": None}).is_empty


@pytest.mark.parametrize(
    ("fields", "field", "expected"),
    [
        ({"plattform": "linux"}, "filter.plattform", "did you mean 'platform'?"),
        ({"zzz": 1}, "filter.zzz", "one of the fields name, tag"),
        ({"a\nb": 1}, "filter.filter", "one of the fields"),
        ({"status": "activ"}, "filter.status", "one of"),
        ({"config_version": "behnd"}, "filter.config_version", "did you mean 'behind'?"),
        ({"config_version": -1}, "filter.config_version", ""),
        ({"config_version": 1.5}, "filter.config_version", ""),
        ({"tag": "A"}, "filter.tag", "a–z"),
        ({"tag": "a,,b"}, "filter.tag", "a–z"),
        ({"tag": ",".join(f"t{n}" for n in range(33))}, "filter.tag", "at most 32"),
        ({"tag": ["a"]}, "filter.tag", "a text"),
        ({"seen_before": "yesterday"}, "filter.seen_before", "a duration such as"),
        ({"seen_after": "9999999999h"}, "filter.seen_after", "a duration such as"),
        ({"certificate_expires_before": "1y"}, "filter.certificate_expires_before", "a duration such as"),
        ({"overdue": "yes"}, "filter.overdue", "true or false"),
        ({"user_id": 0}, "filter.user_id", "at least 1"),
        ({"user_id": 2**63}, "filter.user_id", ""),
        ({"name": ""}, "filter.name", "at least 1"),
        ({"name": "a\x00b"}, "filter.name", ""),
        ({"name": "x" * 256}, "filter.name", "at most 255"),
    ],
)
def test_wrong_field_is_named(fields: dict[str, Any], field: str, expected: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_object(fields)
    assert refused.value.field == field
    assert expected in refused.value.expected


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ([("overdue", "yes")], "overdue"),
        ([("user_id", "x")], "user_id"),
        ([("tag", "a"), ("tag", "b")], "tag"),
        ([("limti", "5")], "limti"),
    ],
)
def test_wrong_parameter_is_named(parameters: list[tuple[str, str]], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        parse_query(parameters, ["limit"])
    assert refused.value.field == field


def test_parameter_of_the_route_is_suggested() -> None:
    with pytest.raises(BadInput, match="did you mean 'limit'"):
        parse_query([("limti", "5")], ["limit"])


def test_relative_times_count_from_now() -> None:
    assert time_ms("90s", "seen_before", NOW_MS) == NOW_MS - 90_000
    assert time_ms("2w", "seen_before", NOW_MS) == NOW_MS - 14 * 86_400_000
    assert time_ms("30d", "x", NOW_MS, is_future=True) == NOW_MS + 30 * 86_400_000
    assert time_ms("999999999w", "seen_before", NOW_MS) == 0
    assert time_ms("2027-01-15T08:00:00Z", "seen_before", NOW_MS) == NOW_MS
