"""Every announcement is declared, and what others are told names recipients and nothing else."""

import ast
from pathlib import Path

import msgspec
import pytest

import restante
from restante.commands.leases import CommandFailed
from restante.commands.queue import CommandsChanged
from restante.core.cursor import Head, Position
from restante.delivery.log import LogEntry, Published
from restante.delivery.outbox import Enqueued
from restante.identity.callers import DeviceRevoked
from restante.server.announcements import (
    CROSSING,
    STAYING,
    Anything,
    DeviceOut,
    LogMoved,
    OutboxFilled,
    SiteChanged,
    decoded,
    encoded,
    messages_of,
)

SOURCE = Path(restante.__file__).parent


def announced_names() -> set[str]:
    """The class of everything that is announced anywhere: `conn.announce(Something(…))`, or of a name assigned so."""
    names: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        made = {
            target.id: node.value.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Name)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "announce":
                names.add(_class_of(node.args[0], made))
    return names


def _class_of(announced: ast.expr, made: dict[str, str]) -> str:
    match announced:
        case ast.Call(func=ast.Name(id=name)):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id="notices"), attr="keep")):
            return "Notice"
        case ast.Name(id=name) if name in made:
            return made[name]
    raise AssertionError(f"what is announced here cannot be told: {ast.unparse(announced)}")


def test_every_announcement_is_declared_once() -> None:
    declared = [each.__name__ for each in (*CROSSING, *STAYING)]
    assert len(declared) == len(set(declared))
    assert announced_names() - set(declared) == set()


def published(device_id: int, n: int) -> Published:
    head = Head(Position(1_800_000_000_000, n), Position(0, 0), Position(1_800_000_000_000, 1))
    entry = LogEntry(head.newest, b'{"type":"secret"}')
    return Published(device_id, Position(0, n - 1), head, (entry,))


def test_others_are_told_recipients_and_never_contents() -> None:
    told = messages_of([published(7, 1), published(7, 2), Enqueued(), Enqueued(), CommandsChanged(3), DeviceRevoked(9)])
    assert told == [LogMoved(7, 1_800_000_000_000, 2), OutboxFilled(), SiteChanged(3), DeviceOut(9)]
    assert encoded(told) == '[["log",7,1800000000000,2],["outbox"],["site",3,""],["device",9]]'
    assert decoded(encoded(told)) == told


def test_what_concerns_one_process_is_not_told() -> None:
    assert messages_of([CommandFailed(1, "X")]) == []


def test_what_has_no_name_makes_others_drop_everything() -> None:
    assert messages_of([object(), object()]) == [Anything()]


def test_what_another_version_says_is_refused() -> None:
    for message in ('[["cook",1]]', '[["log","seven",1,1]]', "{}", ""):
        with pytest.raises(msgspec.DecodeError):
            decoded(message)
