import re
from typing import Any

import msgspec
import pytest

from restante.core.errors import BadInput
from restante.updates.install.install_items import (
    INSTALLS_BYTES_MAX,
    ITEMS_MAX,
    TIMEOUT_MS_MAX,
    ObjectReference,
    checked_installs,
)

FULL: dict[str, Any] = {
    "id": "site",
    "type": "copy",
    "enabled": False,
    "continue_on_error": True,
    "depends_on": [],
    "tags": ["web"],
    "ob_type": "cert",
    "ob_id": 9,
    "ob_name": "site",
    "from": ["fullchain.pem", "key.pem"],
    "to": ["/etc/a", "/etc/b"],
    "cmd": "systemctl reload nginx",
    "cmd_argv": ["systemctl", "reload", "nginx"],
    "timeout_ms": 30000,
    "run_as": "root",
    "env": {"A": "b"},
    "verify": {"sha256": "…", "deep": [{"a": 1}]},
}


def item(**fields: Any) -> dict[str, Any]:
    return {"id": "one", "type": "exec", **fields}


def stored(*items: dict[str, Any]) -> Any:
    return msgspec.json.decode(checked_installs(list(items)).canonical_json)


def test_full_item_is_stored_as_sent() -> None:
    assert stored(FULL) == [FULL]


def test_enabled_is_added_and_nothing_else() -> None:
    assert stored(item()) == [item(enabled=True)]
    assert stored(item(enabled=None, cmd=None)) == [item(enabled=True, cmd=None)]


def test_cmd_is_a_string_or_a_list() -> None:
    assert stored(item(cmd="true"))[0]["cmd"] == "true"
    assert stored(item(cmd=["true", ""]))[0]["cmd"] == ["true", ""]


def test_json_is_canonical() -> None:
    one = checked_installs([{"type": "exec", "id": "ü", "env": {"b": "1", "a": "2"}}]).canonical_json
    two = checked_installs([{"env": {"a": "2", "b": "1"}, "id": "ü", "type": "exec"}]).canonical_json
    assert one == two == '[{"enabled":true,"env":{"a":"2","b":"1"},"id":"ü","type":"exec"}]'.encode()


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"id": None}, "id"),
        ({"id": ""}, "id"),
        ({"id": "x" * 129}, "id"),
        ({"id": 7}, "id"),
        ({"type": "zip"}, "type"),
        ({"type": 1}, "type"),
        ({"enabled": "yes"}, "enabled"),
        ({"continue_on_error": 1}, "continue_on_error"),
        ({"depends_on": "two"}, "depends_on"),
        ({"depends_on": [1]}, "depends_on[0]"),
        ({"tags": ["x" * 256]}, "tags[0]"),
        ({"tags": ["x"] * 101}, "tags"),
        ({"ob_type": "key", "ob_id": 1}, "ob_type"),
        ({"ob_id": 1}, "ob_type"),
        ({"ob_type": "cert", "ob_id": "1"}, "ob_id"),
        ({"ob_type": "cert", "ob_id": 0}, "ob_id"),
        ({"ob_type": "cert", "ob_id": 2**63}, "ob_id"),
        ({"ob_name": 1}, "ob_name"),
        ({"from": ["a"]}, "to"),
        ({"to": ["a"]}, "to"),
        ({"from": ["a", "b"], "to": ["a"]}, "to"),
        ({"from": "a", "to": "b"}, "from"),
        ({"from": [""], "to": ["b"]}, "from[0]"),
        ({"from": ["a"], "to": ["b\0"]}, "to[0]"),
        ({"from": ["a"] * 101, "to": ["a"] * 101}, "from"),
        ({"cmd": 1}, "cmd"),
        ({"cmd": ["a\0"]}, "cmd[0]"),
        ({"cmd": ["a"] * 257}, "cmd"),
        ({"cmd": "x" * 8193}, "cmd"),
        ({"cmd_argv": "true"}, "cmd_argv"),
        ({"cmd_argv": ["a"] * 257}, "cmd_argv"),
        ({"timeout_ms": -1}, "timeout_ms"),
        ({"timeout_ms": TIMEOUT_MS_MAX + 1}, "timeout_ms"),
        ({"timeout_ms": 1.5}, "timeout_ms"),
        ({"run_as": 0}, "run_as"),
        ({"env": {"A": 1}}, "env"),
        ({"env": {"": "b"}}, "env"),
        ({"env": {"A" * 129: "b"}}, "env"),
        ({"env": {"A\0": "b"}}, "env"),
        ({"env": {str(n): "b" for n in range(257)}}, "env"),
        ({"env": {"A=B": "b"}}, "env"),
        ({"verify": []}, "verify"),
        ({"color": "red"}, "color"),
    ],
)
def test_error_names_the_item_and_the_field(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(BadInput) as caught:
        checked_installs([item(id="zero"), item(**fields)])
    assert caught.value.field.startswith(f"installs[1].{path}"), caught.value.message


@pytest.mark.parametrize("missing", ["id", "type"])
def test_id_and_type_are_required(missing: str) -> None:
    sent = item()
    del sent[missing]
    with pytest.raises(BadInput, match=re.escape(f"installs[0].{missing}: ")):
        checked_installs([sent])


def test_ids_are_unique() -> None:
    with pytest.raises(BadInput, match=r"^installs\[2\]\.id: .*installs\[0\]"):
        checked_installs([item(id="a"), item(id="b"), item(id="a")])


def test_unknown_dependency_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^installs\[0\]\.depends_on: .*'missing'"):
        checked_installs([item(depends_on=["missing"])])


def test_cycle_is_refused_and_named() -> None:
    items = [
        item(id="free"),
        item(id="a", depends_on=["free", "b"]),
        item(id="b", depends_on=["c"]),
        item(id="c", depends_on=["free", "a"]),
    ]
    with pytest.raises(BadInput, match=r"^installs\[1\]\.depends_on: .*a → b → c → a"):
        checked_installs(items)
    with pytest.raises(BadInput, match=r"^installs\[0\]\.depends_on: .*one → one"):
        checked_installs([item(depends_on=["one"])])


def test_several_paths_to_one_item_are_no_cycle() -> None:
    checked_installs([item(id="a", depends_on=["b", "c", "b"]), item(id="b", depends_on=["c"]), item(id="c")])


def test_chain_may_be_as_long_as_the_list() -> None:
    chain = [item(id=str(n), depends_on=[str(n + 1)] if n + 1 < ITEMS_MAX else []) for n in range(ITEMS_MAX)]
    checked_installs(chain)
    chain[-1]["depends_on"] = ["0"]
    with pytest.raises(BadInput, match=r"0 → 1 → .* → 499 → 0$"):
        checked_installs(chain)


def test_number_of_items_is_bounded() -> None:
    with pytest.raises(BadInput, match=r"^installs: .*500 items"):
        checked_installs([item(id=str(n)) for n in range(ITEMS_MAX + 1)])


def test_size_is_bounded() -> None:
    def sized(total: int) -> list[dict[str, Any]]:
        sent = [item(verify={"pad": ""}, enabled=True)]
        sent[0]["verify"]["pad"] = "x" * (total - len(msgspec.json.encode(sent)))
        return sent

    assert len(checked_installs(sized(INSTALLS_BYTES_MAX)).canonical_json) == INSTALLS_BYTES_MAX
    with pytest.raises(BadInput, match=r"^installs: .*bytes"):
        checked_installs(sized(INSTALLS_BYTES_MAX + 1))


def test_references_are_collected() -> None:
    checked = checked_installs(
        [
            item(id="a", ob_type="cert", ob_id=3),
            item(id="b"),
            item(id="c", type="import_ca", ob_id=4),
            item(id="d", ob_type="ca", ob_name="by name only"),
        ]
    )
    assert checked.references == [
        ObjectReference("installs[0].ob_id", "cert", 3),
        ObjectReference("installs[2].ob_id", "ca", 4),
    ]
