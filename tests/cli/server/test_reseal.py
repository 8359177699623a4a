import stat
from pathlib import Path

import pytest
from typer.testing import Result

from restante.commands.audit import audit_export
from restante.commands.audit.audit_trail import KEY_PURPOSE, AuditTrail
from restante.commands.sites import sites
from restante.database.connection import Connection
from restante.database.queries import Query
from restante.identity import signing_keys
from restante.identity.master_key import MasterKeySource
from restante.identity.reseal import key_change
from restante.identity.reseal.key_change import Holder
from tests.cli.conftest import Restante

OLD, NEW = "11" * 32, "22" * 32
NOW = ("--settle", "0", "--wait", "0")
_DROP_SIGNING_KEYS = Query("drop", "DELETE FROM signing_keys")


def reseal(restante: Restante) -> Result:
    return restante("keys", "reseal", *NOW, "--json")


def key_id(text: str) -> str:
    found = MasterKeySource(Path("unused"), text).find()
    assert found is not None
    return found.key_id


def test_new_key_is_made_and_takes_the_place_of_the_old_one(restante: Restante) -> None:
    restante.ok("init")
    path = restante.data / "master.key"
    old = path.read_text()
    result = restante("keys", "reseal", *NOW)
    assert result.exit_code == 0, result.output
    assert "each was opened with it" in result.stdout
    assert "need the old key" in result.stdout
    assert path.read_text() != old
    assert (restante.data / "master.key.old").read_text() == old
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not (restante.data / "master.key.next").exists()
    assert {each["state"] for each in restante.items("doctor")} == {"ok"}
    assert restante.json("keys", "rotate")["kid"]


def test_given_key_is_used_and_the_old_one_does_not_fit_any_more(restante: Restante) -> None:
    restante.ok("init")
    old = (restante.data / "master.key").read_text()
    following = restante.data / "master.key.next"
    following.touch(mode=0o600)
    following.write_text(NEW)
    assert reseal(restante).exit_code == 0
    assert (restante.data / "master.key").read_text() == NEW
    (restante.data / "master.key").write_text(old)
    assert "does not fit" in restante.error_line("keys", "rotate")


@pytest.mark.parametrize(("text", "problem"), [("short", "must be 32 bytes"), (None, "seals the database already")])
def test_key_that_cannot_be_used_is_refused(restante: Restante, text: str | None, problem: str) -> None:
    restante.ok("init")
    following = restante.data / "master.key.next"
    following.touch(mode=0o600)
    following.write_text(text or (restante.data / "master.key").read_text())
    assert problem in restante.error_line("keys", "reseal", *NOW)
    with restante.database() as database:
        assert database.read_now(key_change.newest) is None


def test_keys_of_the_environment_are_changed(restante: Restante, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTANTE_MASTER_KEY", OLD)
    restante.ok("init")
    assert "RESTANTE_MASTER_KEY_NEXT" in restante.error_line("keys", "reseal", *NOW)
    monkeypatch.setenv("RESTANTE_MASTER_KEY_NEXT", NEW)
    result = restante("keys", "reseal", *NOW)
    assert "remove RESTANTE_MASTER_KEY_NEXT" in result.stdout
    assert reseal(restante).exit_code == 0
    monkeypatch.delenv("RESTANTE_MASTER_KEY_NEXT")
    assert "does not fit" in restante.error_line("keys", "rotate")
    monkeypatch.setenv("RESTANTE_MASTER_KEY", NEW)
    assert restante.json("keys", "rotate")["kid"]
    assert not list(restante.data.glob("master.key*"))


def test_server_without_the_new_key_stops_the_change_and_is_named(restante: Restante) -> None:
    restante.ok("init")
    with restante.database() as database:
        master = signing_keys.unlock(database, MasterKeySource(restante.data / "master.key", None))
        database.write_now(key_change.report, Holder("other", "elsewhere, process 7"), master)
    result = reseal(restante)
    assert result.exit_code == 1
    assert "elsewhere, process 7" in result.stderr
    assert "Nothing is lost" in result.stderr
    assert restante.json("keys", "rotate")["kid"], "commands still seal with the old key"
    with restante.database() as database:
        both = database.read_now(signing_keys.matching_master_key, MasterKeySource(restante.data / "master.key", None))
        assert both is not None
        assert both.key_id == master.key_id
        database.write_now(key_change.remove, Holder("other", ""))
    assert reseal(restante).exit_code == 0


def test_old_key_that_is_removed_too_early_is_missed(restante: Restante) -> None:
    restante.ok("init")
    path, following = restante.data / "master.key", restante.data / "master.key.next"
    old = path.read_text()
    MasterKeySource(path, None).make_next()
    with restante.database() as database:
        change = database.write_now(key_change.announce, key_id(old), key_id(following.read_text()))
        database.write_now(key_change.start_sealing, change, {})
    following.replace(path)
    line = restante.error_line("keys", "rotate")
    assert f"its old key {change.old_key_id} is missing" in line
    assert "restante keys reseal" in line
    assert change.old_key_id in restante("doctor", "--json").stdout
    following.touch(mode=0o600)
    following.write_text(old)
    assert reseal(restante).exit_code == 0
    assert restante.json("keys", "rotate")["kid"]


def test_key_that_is_lost_before_it_seals_anything_is_replaced(restante: Restante) -> None:
    restante.ok("init")
    path, following = restante.data / "master.key", restante.data / "master.key.next"
    old = path.read_text()
    MasterKeySource(path, None).make_next()
    with restante.database() as database:
        database.write_now(key_change.announce, key_id(old), key_id(following.read_text()))
    following.unlink()
    assert restante.json("keys", "rotate")["kid"]
    assert reseal(restante).exit_code == 0
    assert (restante.data / "master.key.old").read_text() == old


def test_run_that_ended_before_the_files_were_exchanged_is_completed(restante: Restante) -> None:
    restante.ok("init")
    path = restante.data / "master.key"
    old = path.read_text()
    assert reseal(restante).exit_code == 0
    new = path.read_text()
    path.rename(restante.data / "master.key.next")
    path.touch(mode=0o600)
    path.write_text(old)
    assert reseal(restante).exit_code == 0
    assert path.read_text() == new
    assert (restante.data / "master.key.old").read_text() == old


def test_lost_key_after_a_change_is_replaced(restante: Restante) -> None:
    restante.ok("init")
    assert reseal(restante).exit_code == 0
    (restante.data / "master.key").unlink()
    restante.ok("keys", "rotate", "--master-key-lost")
    assert reseal(restante).exit_code == 0


def test_backup_during_a_change_has_both_keys(restante: Restante, tmp_path: Path) -> None:
    restante.ok("init")
    source = MasterKeySource(restante.data / "master.key", None)
    old, new = source.find(), source.make_next()
    assert old is not None
    with restante.database() as database:
        change = database.write_now(key_change.announce, old.key_id, new.key_id)
        database.write_now(key_change.start_sealing, change, {})
        sealing = signing_keys.unlock(database, source)
        database.write_now(signing_keys.rotate, signing_keys.make(sealing), 3600)
    restante.ok("backup", str(tmp_path / "backup"))
    again = Restante(tmp_path / "again")
    again.ok("restore", str(tmp_path / "backup"))
    assert reseal(again).exit_code == 0
    assert reseal(restante).exit_code == 0


def test_nothing_is_changed_where_nothing_is_sealed(restante: Restante) -> None:
    assert "there is no data folder" in restante.error_line("keys", "reseal")
    restante.ok("init")
    with restante.database() as database:
        database.write_now(lambda conn: conn.run(_DROP_SIGNING_KEYS))
    (restante.data / "master.key").unlink()
    assert "nothing is sealed" in restante.error_line("keys", "reseal")
    assert not list(restante.data.glob("master.key*"))


def test_exported_audit_trail_is_verified_after_a_change(restante: Restante, tmp_path: Path) -> None:
    restante.ok("init")
    file = tmp_path / "export.jsonl"
    with restante.database() as database:
        source = MasterKeySource(restante.data / "master.key", None)
        trail = AuditTrail(signing_keys.unlock(database, source).derive_key(KEY_PURPOSE))
        database.write_now(sites.add, trail, "site", "test")
        file.write_bytes(database.read_now(exported, trail))
    restante.ok("audit", "verify", str(file))
    assert reseal(restante).exit_code == 0
    assert "unbroken" in restante.ok("audit", "verify", str(file))


def exported(conn: Connection, trail: AuditTrail) -> bytes:
    header = audit_export.build_header(conn, trail.mac, None)
    rows = [row for part in audit_export.row_ranges(header) for row in audit_export.read_rows(conn, *part)]
    return audit_export.encode_line(header) + b"".join(audit_export.encode_line(row) for row in rows)
