from typing import Any

import pytest

from restante.core.errors import BadInput
from restante.updates.install.config_patch import ConfigPatch, merged, patched

SITE = {"id": "site", "type": "copy", "env": {"A": "1", "B": "2"}}
OLD = {"id": "old", "type": "exec"}


# The examples of RFC 7396, appendix A.
@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_follows_the_rfc(target: Any, patch: Any, result: Any) -> None:
    assert merged(target, patch) == result


def test_object_changes_adds_and_removes_items_by_id() -> None:
    patch = ConfigPatch(
        installs={"site": {"enabled": False, "env": {"A": None}}, "old": None, "new": {"type": "exec", "cmd": "x"}}
    )
    installs, script = patched(patch, [SITE, OLD], "true")
    assert installs == [
        {"id": "site", "type": "copy", "env": {"B": "2"}, "enabled": False},
        {"id": "new", "type": "exec", "cmd": "x"},
    ]
    assert script == "true"


def test_list_replaces_all_items_and_null_removes_the_script() -> None:
    assert patched(ConfigPatch(installs=[OLD], after_update_script=None), [SITE], "true") == ([OLD], None)


def test_item_keeps_its_id() -> None:
    with pytest.raises(BadInput, match=r"installs\.site\.id"):
        patched(ConfigPatch(installs={"site": {"id": "other"}}), [SITE], None)
