"""Which cluster messages commit events become. A message names recipients, never contents."""

import importlib
import pkgutil

import msgspec
import pytest

import restante
from restante.commands.dispatch.settlement import CommandFailed
from restante.commands.lifecycle.ordering import CommandsChanged
from restante.core.cursor import LogHead, Position
from restante.database.commit_events import AnythingChanged, ClusterMessage
from restante.delivery.log.log import LogAdvanced, LogEntry, SignalsPublished
from restante.delivery.outbox.outbox import Enqueued
from restante.identity.callers import DeviceRevoked
from restante.server.app import opened
from restante.server.cluster.cluster_messages import MessageDecoder, encoded, messages_of
from restante.server.config.settings import Settings


@pytest.fixture
def decoder(tmp_path_factory: pytest.TempPathFactory) -> MessageDecoder:
    with opened(Settings(data=tmp_path_factory.mktemp("node"))) as node:
        return MessageDecoder(node.components.cluster_messages)


def test_node_handles_every_type_of_cluster_message(tmp_path_factory: pytest.TempPathFactory) -> None:
    for module in pkgutil.walk_packages(restante.__path__, "restante."):
        importlib.import_module(module.name)
    with opened(Settings(data=tmp_path_factory.mktemp("node"))) as node:
        assert set(node.components.cluster_messages) == set(ClusterMessage.__subclasses__())


def published(device_id: int, n: int) -> SignalsPublished:
    head = LogHead(Position(1_800_000_000_000, n), Position(0, 0), Position(1_800_000_000_000, 1))
    entry = LogEntry(head.newest, b'{"type":"secret"}')
    return SignalsPublished(device_id, Position(0, n - 1), head, (entry,))


def test_messages_name_each_recipient_once_and_no_contents(decoder: MessageDecoder) -> None:
    events = [published(7, 1), published(7, 2), Enqueued(), Enqueued(), CommandsChanged(3), DeviceRevoked(9)]
    messages = messages_of(events)
    assert messages == [LogAdvanced(7, 1_800_000_000_000, 2), Enqueued(), CommandsChanged(3), DeviceRevoked(9)]
    # The wire format between nodes. Nodes of the previous version must understand it, too.
    assert encoded(messages) == '[["log",7,1800000000000,2],["outbox"],["site",3,""],["device",9]]'
    assert decoder.decode(encoded(messages)) == messages


def test_messages_of_the_previous_version_are_decoded(decoder: MessageDecoder) -> None:
    for tag in ("keys", "poll_boost", "outbox", "wraps", "sign", "push", "anything", "who", "nobody"):
        (message,) = decoder.decode(f'[["{tag}"]]')
        assert isinstance(message, ClusterMessage)


def test_event_that_only_its_own_process_handles_becomes_no_message() -> None:
    assert messages_of([CommandFailed(1, "X")]) == []


def test_unknown_events_become_one_message_to_drop_all_caches() -> None:
    assert messages_of([object(), object()]) == [AnythingChanged()]


def test_unknown_or_malformed_message_is_refused(decoder: MessageDecoder) -> None:
    for text in ('[["cook",1]]', '[["log","seven",1,1]]', "{}", ""):
        with pytest.raises(msgspec.DecodeError):
            decoder.decode(text)
