import os
import pwd

import pytest

from restante.cli.edge import actor, audit_mac, opened_edge
from restante.commands.audit import AuditTrail
from restante.identity.master_key import MasterKeySource
from restante.server.data_folder import DataFolder
from tests.cli.conftest import Restante


def test_the_trails_key_comes_from_the_folders_master_key(restante: Restante) -> None:
    with opened_edge(restante.data) as edge:
        written = edge.trail.mac.digest(b"x")
    key = MasterKeySource(DataFolder(restante.data).master_key_path, None).find()
    assert key is not None
    assert written == AuditTrail(key.derived("audit")).mac.digest(b"x") == audit_mac(restante.data).digest(b"x")


def test_options_are_the_servers_settings(restante: Restante, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_COMMANDS_NEEDING_APPROVAL", "POOL_SET")
    monkeypatch.setenv("MAX_COMMAND_RETRIES", "9")
    with opened_edge(restante.data) as edge:
        assert edge.options.approval.is_needed("POOL_SET", 1)
        assert edge.options.for_creation().max_retries == 9


def test_the_actor_is_the_systems_user(monkeypatch: pytest.MonkeyPatch) -> None:
    assert actor() == f"cli:{pwd.getpwuid(os.geteuid()).pw_name}"
    monkeypatch.setenv("LOGNAME", "somebody")
    assert "somebody" not in actor()
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    assert actor() == "cli:4000000"
