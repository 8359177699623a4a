from typing import Any

import pytest

from restante.commands.dispatch.poll_response import CommandPollResponse, PolledCommand
from restante.commands.legacy_api.pending_commands import pending_response


def polled(**changed: Any) -> PolledCommand:
    fields: dict[str, Any] = {
        "command_id": "cmd_1",
        "site_id": 7,
        "zone_id": 8,
        "miner_id": 1001,
        "command_type": "SET_FAN",
        "params": {"speed": 80},
        "priority": 2,
        "expires_at": "2026-01-18T11:00:00Z",
        "dedupe_key": None,
        "signed_at": "2026-01-18T10:00:00Z",
        "nonce": "n",
        "signature": "s",
        "sig_version": "v",
        "sig_encoding": "hex",
        "command": "set_fan",
        "attempt": 3,
        "retry_count": 2,
        "max_retries": 3,
        "lease_until": "2026-01-18T10:01:00Z",
        "lease_duration_sec": 60,
    }
    return PolledCommand(**{**fields, **changed})


def test_command_has_the_names_that_older_collectors_read() -> None:
    response = pending_response(CommandPollResponse([polled()], 1, 0, 0, "2026-01-18T10:00:00Z"))
    assert (response.success, response.count, response.server_time) == (True, 1, "2026-01-18T10:00:00Z")
    [command] = response.commands
    assert (command.command_id, command.id) == ("cmd_1", "cmd_1")
    assert (command.command, command.action, command.params) == ("set_fan", "set_fan", {"speed": 80})
    assert (command.issued_at, command.attempt, command.nonce) == ("2026-01-18T10:00:00Z", 3, "n")


@pytest.mark.parametrize(("miner_id", "sent"), [(1001, "1001"), (None, None)])
def test_miner_id_is_a_text(miner_id: int | None, sent: str | None) -> None:
    response = pending_response(CommandPollResponse([polled(miner_id=miner_id)], 0, 1, 0, ""))
    assert response.commands[0].miner_id == sent
