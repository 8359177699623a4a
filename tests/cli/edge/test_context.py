import os
import pwd

import pytest

from restante.cli.actor import cli_actor
from restante.cli.edge.context import audit_mac, open_edge
from restante.commands.audit.audit_trail import AuditTrail
from restante.identity.master_key import MasterKeySource
from restante.server.data_folder import DataFolder
from tests.cli.conftest import Restante


def test_audit_key_is_derived_from_master_key_of_folder(restante: Restante) -> None:
    with open_edge(restante.data) as edge:
        written = edge.trail.mac.digest(b"x")
    key = MasterKeySource(DataFolder(restante.data).master_key_path, None).find()
    assert key is not None
    assert written == AuditTrail(key.derive_key("audit")).mac.digest(b"x") == audit_mac(restante.data).digest(b"x")


def test_options_come_from_server_settings(restante: Restante, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_COMMANDS_NEEDING_APPROVAL", "POOL_SET")
    monkeypatch.setenv("MAX_COMMAND_RETRIES", "9")
    with open_edge(restante.data) as edge:
        assert edge.options.approval.is_needed("POOL_SET", 1)
        assert edge.options.for_creation(edge.box).max_retries == 9


def test_actor_is_system_user(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli_actor() == f"cli:{pwd.getpwuid(os.geteuid()).pw_name}"
    monkeypatch.setenv("LOGNAME", "somebody")
    assert "somebody" not in cli_actor()
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    assert cli_actor() == "cli:4000000"
