"""A collector against a server that plays a script, in both flavours."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from edge_script import NOW, OK, OLD_SECRET, SECRET, acks, command, polled, refusal, reply
from flavours import InLoop, QuickAsyncRuntime, QuickBlockingRuntime
from scripted_server import Lost, Reply, ScriptedServer

from restante_client import BlockingCollectorClient, CollectorClient, CollectorOptions, Command, Result
from restante_client.collector.signatures import sign
from restante_client.errors import Conflict, StateError, Unauthorized, Unavailable, Unreachable

OPTIONS = CollectorOptions(secrets=[SECRET])

MakeCollector = Callable[..., Any]


@pytest.fixture(params=["asyncio", "blocking"])
def make(
    request: pytest.FixtureRequest, server: ScriptedServer, tmp_path: Path, loop: asyncio.AbstractEventLoop
) -> Iterator[MakeCollector]:
    made: list[Any] = []

    def make(options: CollectorOptions = OPTIONS) -> Any:
        runtime: Any
        if request.param == "blocking":
            runtime = QuickBlockingRuntime()
            collector: Any = BlockingCollectorClient(
                server.url, "ed_secret", tmp_path / "state", options, runtime=runtime
            )
        else:
            runtime = QuickAsyncRuntime()
            client = CollectorClient(server.url, "ed_secret", tmp_path / "state", options, runtime=runtime)
            collector = InLoop(loop, client)
        collector.pauses = runtime.pauses
        made.append(collector)
        return collector

    yield make
    for collector in made:
        collector.close()


def succeed(_command: Command) -> Result:
    return Result(message="done")


def carry_out_all(collector: Any, execute: Callable[[Command], Result]) -> None:
    for found in collector.poll():
        collector.carry_out(found, execute)
    collector.flush()


class TestPoll:
    def test_genuine_command_is_executed_and_acknowledged(self, make: MakeCollector, server: ScriptedServer) -> None:
        server.add(polled(command()), reply(OK))
        executed: list[Command] = []

        def execute(found: Command) -> Result:
            executed.append(found)
            return Result(result_code=7, message="done", before={"temp": 80}, after={"temp": 60})

        carry_out_all(make(), execute)
        assert [(each.command_type, each.target_ids, each.params) for each in executed] == [
            ("MINER_RESTART", [1001], {"reason": "Überhitzung"})
        ]
        (ack,) = acks(server)
        assert ack.pop("executed_at")
        assert ack == {
            "status": "succeeded",
            "result_code": 7,
            "message": "done",
            "before_snapshot": {"temp": 80},
            "after_snapshot": {"temp": 60},
            "nonce": "nonce-1-1",
            "attempt": 1,
        }
        assert server.requests[0].headers["Authorization"] == "Bearer ed_secret"

    @pytest.mark.parametrize(
        "changed",
        [
            {"params": {"reason": "other"}},
            {"miner_id": 1002},
            {"expires_at": "2026-01-19T11:00:00Z"},
            {"nonce": "another"},
            {"signature": "00" * 32},
            {"signature": None},
            {"sig_version": "NONE"},
        ],
    )
    def test_command_with_a_wrong_signature_is_deferred_and_not_executed(
        self, make: MakeCollector, server: ScriptedServer, changed: dict[str, Any]
    ) -> None:
        server.add(polled({**command(), **changed}), reply(OK))
        carry_out_all(make(), lambda found: pytest.fail("executed"))
        (ack,) = acks(server)
        assert (ack["status"], ack["result_code"]) == ("deferred", "SIGNATURE_INVALID")

    def test_both_secrets_are_accepted_during_a_rotation(self, make: MakeCollector, server: ScriptedServer) -> None:
        server.add(polled(command(1), command(2, secret=OLD_SECRET)))
        found = make(CollectorOptions(secrets=[SECRET, OLD_SECRET])).poll()
        assert [each.command_id for each in found] == ["cmd_1", "cmd_2"]

    def test_unsigned_command_is_accepted_only_by_option(self, make: MakeCollector, server: ScriptedServer) -> None:
        server.add(polled({**command(), "signature": None, "sig_version": None}))
        assert len(make(CollectorOptions(is_signature_required=False)).poll()) == 1
        with pytest.raises(ValueError, match="secrets: expected"):
            make(CollectorOptions())

    def test_replayed_response_is_dropped(self, make: MakeCollector, server: ScriptedServer) -> None:
        server.add(polled(command()), polled(command()), polled({**command(), "attempt": 9}))
        collector = make()
        assert [len(collector.poll()) for _ in range(3)] == [1, 0, 0]
        # The guard is on disk.
        server.add(polled(command()))
        assert make().poll() == []

    def test_time_of_the_lease_comes_from_the_server(self, make: MakeCollector, server: ScriptedServer) -> None:
        """This machine's clock is years away from the server's."""
        server.add(polled(command()))
        (found,) = make().poll()
        assert 0 < found.lease_seconds_left <= 60
        assert not found.is_expired

    def test_server_time_before_the_signature_does_not_revive_a_command(
        self, make: MakeCollector, server: ScriptedServer
    ) -> None:
        expired = command(expires_at="2026-01-18T09:59:59Z")
        server.add(polled(expired, server_time="2026-01-18T01:00:00Z"))
        (found,) = make().poll()
        assert found.is_expired

    @pytest.mark.parametrize("server_time", ["2026-01-18T10:00:00Z", "2026-01-18T10:00:00.250Z"])
    def test_times_with_and_without_milliseconds_are_read(
        self, make: MakeCollector, server: ScriptedServer, server_time: str
    ) -> None:
        server.add(polled(command(), server_time=server_time))
        (found,) = make().poll()
        assert 59 < found.lease_seconds_left <= 60

    def test_command_whose_lease_has_ended_is_not_executed(self, make: MakeCollector, server: ScriptedServer) -> None:
        server.add(polled(command(), server_time="2026-01-18T10:01:01Z"))
        carry_out_all(make(), lambda found: pytest.fail("executed"))
        assert acks(server) == []

    @pytest.mark.parametrize(
        "body", [{}, {"commands": 1}, {"commands": [{}], "server_time": NOW}, {"commands": [command()]}]
    )
    def test_body_of_another_shape_is_no_crash(self, make: MakeCollector, server: ScriptedServer, body: Any) -> None:
        server.add(reply(body))
        with pytest.raises(Unreachable):
            make().poll()

    def test_extend(self, make: MakeCollector, server: ScriptedServer) -> None:
        server.add(polled(command()), reply(OK), refusal(409, "ACK_NOT_LEASE_OWNER"))
        collector = make()
        (found,) = collector.poll()
        collector.extend(found, 300)
        assert server.requests[1].json == {"lease_seconds": 300, "nonce": "nonce-1-1"}
        with pytest.raises(Conflict, match="ACK_NOT_LEASE_OWNER"):
            collector.extend(found, 300)


class TestAtMostOnce:
    def test_lost_ack_is_sent_again_without_a_second_execution(
        self, make: MakeCollector, server: ScriptedServer
    ) -> None:
        server.add(polled(command()), Lost())
        executed: list[int] = []

        def execute(found: Command) -> Result:
            executed.append(found.attempt)
            return Result(message="done")

        with pytest.raises(Unreachable):
            carry_out_all(make(), execute)
        # Another process of the same collector; the server dispatches the command again meanwhile.
        again = make()
        server.add(refusal(409, "ACK_NOT_LEASE_OWNER"), polled(command(attempt=2)), reply(OK))
        again.flush()
        carry_out_all(again, execute)
        assert executed == [1]
        assert [(ack["status"], ack["attempt"], ack["message"]) for ack in acks(server)] == [
            ("succeeded", 1, "done"),
            ("succeeded", 1, "done"),
            ("succeeded", 2, "done"),
        ]

    def test_failed_command_is_executed_again_as_a_retry(self, make: MakeCollector, server: ScriptedServer) -> None:
        server.add(polled(command()), reply(OK), polled(command(attempt=2)), reply(OK))
        collector = make()
        results = iter([Result("failed", 1), Result("succeeded", 0)])
        for _ in range(2):
            carry_out_all(collector, lambda found: next(results))
        assert [ack["status"] for ack in acks(server)] == ["failed", "succeeded"]

    def test_program_that_ended_during_the_execution_does_not_execute_again(
        self, make: MakeCollector, server: ScriptedServer
    ) -> None:
        server.add(polled(command()), polled(command(attempt=2)), reply(OK))

        class Killed(BaseException):
            pass

        def kill(found: Command) -> Result:
            raise Killed

        with pytest.raises(Killed):
            carry_out_all(make(), kill)
        carry_out_all(make(), lambda found: pytest.fail("executed"))
        (ack,) = acks(server)
        assert (ack["status"], ack["result_code"], ack["message"]) == ("skipped", 2, "DUPLICATE_IGNORED")
        assert (ack["nonce"], ack["attempt"]) == ("nonce-1-2", 2)

    def test_exception_of_the_program_is_a_failure_without_its_text(
        self, make: MakeCollector, server: ScriptedServer
    ) -> None:
        server.add(polled(command()), reply(OK))

        def execute(found: Command) -> Result:
            raise RuntimeError("password=hunter2")

        carry_out_all(make(), execute)
        (ack,) = acks(server)
        assert (ack["status"], ack["result_code"]) == ("failed", "RuntimeError")
        assert "hunter2" not in json.dumps(ack)

    def test_unknown_status_is_refused(self) -> None:
        with pytest.raises(ValueError, match="status: expected one of succeeded"):
            Result("done")


class TestSpool:
    def test_reports_wait_until_the_server_is_there(self, make: MakeCollector, server: ScriptedServer) -> None:
        collector = make()
        collector.add_telemetry([{"miner_id": 1001, "ts": NOW, "temp_max": 71.5}])
        collector.add_safety_events([{"miner_id": 1001, "action": "FAN_FAILURE", "ts": NOW}])
        server.add(Lost())
        with pytest.raises(Unreachable):
            collector.flush()
        assert collector.store.waiting() == {"ack": 0, "safety": 1, "telemetry": 1}
        server.add(reply({"processed": 1, "failed": 0}), reply({"processed": 1, "failed": 0}))
        assert make().flush() == 2
        safety, telemetry = server.requests[1:]
        assert safety.path == "/api/edge/v1/events/safety/batch"
        assert telemetry.path == "/api/edge/v1/telemetry/batch"
        assert telemetry.headers["Content-Encoding"] == "gzip"
        assert json.loads(gzip.decompress(telemetry.body)) == {
            "schema": "telemetry_envelope.v1",
            "record_count": 1,
            "records": [{"miner_id": 1001, "ts": NOW, "temp_max": 71.5}],
        }

    def test_large_reports_are_split(self, make: MakeCollector, server: ScriptedServer) -> None:
        collector = make()
        collector.add_telemetry([{"miner_id": 1, "ts": NOW}] * 2500)
        assert collector.store.waiting()["telemetry"] == 3

    def test_report_that_is_never_accepted_does_not_block_the_others(
        self, make: MakeCollector, server: ScriptedServer
    ) -> None:
        collector = make()
        for number in range(2):
            collector.add_safety_events([{"miner_id": number, "action": "FAN_FAILURE", "ts": NOW}])
        server.add(refusal(400, "INVALID_REQUEST"), reply({"processed": 1, "failed": 0}, 207))
        assert collector.flush() == 2
        assert collector.store.waiting()["safety"] == 0

    @pytest.mark.parametrize(
        ("step", "kind"), [(refusal(503, "UNAVAILABLE"), Unavailable), (refusal(401, "UNAUTHORIZED"), Unauthorized)]
    )
    def test_refused_token_and_busy_server_keep_the_ack(
        self, make: MakeCollector, server: ScriptedServer, step: Reply, kind: type[Exception]
    ) -> None:
        server.add(polled(command()), step)
        collector = make()
        with pytest.raises(kind):
            carry_out_all(collector, succeed)
        assert collector.store.waiting()["ack"] == 1

    @pytest.mark.parametrize(("status", "code"), [(401, "NONCE_MISMATCH"), (409, "COMMAND_FINISHED"), (410, "X")])
    def test_refused_ack_is_dropped(self, make: MakeCollector, server: ScriptedServer, status: int, code: str) -> None:
        server.add(polled(command()), refusal(status, code))
        collector = make()
        carry_out_all(collector, succeed)
        assert collector.store.waiting()["ack"] == 0

    def test_full_spool_drops_telemetry_and_keeps_acks(self, make: MakeCollector, server: ScriptedServer) -> None:
        collector = make(CollectorOptions(secrets=[SECRET], spool_bytes_max=20_000))
        server.add(polled(command()), Lost())
        with pytest.raises(Unreachable):
            carry_out_all(collector, succeed)
        for _ in range(40):
            collector.add_telemetry([{"miner_id": 1, "ts": NOW, "note": "x" * 1000}])
        waiting = collector.store.waiting()
        assert waiting["ack"] == 1
        assert 0 < waiting["telemetry"] < 20

    def test_old_telemetry_is_dropped(self, make: MakeCollector) -> None:
        collector = make(CollectorOptions(secrets=[SECRET], spool_age_seconds_max=0))
        for _ in range(3):
            collector.add_telemetry([{"miner_id": 1, "ts": NOW}])
        assert collector.store.waiting()["telemetry"] <= 1

    def test_spool_can_be_encrypted(self, make: MakeCollector, tmp_path: Path) -> None:
        key = bytes(range(32))
        collector = make(CollectorOptions(secrets=[SECRET], spool_key=key))
        collector.add_telemetry([{"miner_id": 1, "note": "confidential"}])
        assert not [file for file in (tmp_path / "state").iterdir() if b"confidential" in file.read_bytes()]
        assert collector.store.oldest("telemetry").body["records"][0]["note"] == "confidential"
        with pytest.raises(StateError, match="is the key the right one"):
            make(CollectorOptions(secrets=[SECRET], spool_key=bytes(32))).flush()

    def test_acks_can_be_signed(self, make: MakeCollector, server: ScriptedServer) -> None:
        server.add(polled(command()), reply(OK))
        carry_out_all(make(CollectorOptions(secrets=[SECRET, OLD_SECRET], is_signing_acks=True)), succeed)
        (ack,) = acks(server)
        assert ack.pop("signature") == sign(ack, SECRET)


class TestRun:
    def test_run_polls_executes_and_survives_failures(self, make: MakeCollector, server: ScriptedServer) -> None:
        collector = make()
        server.add(Lost(), refusal(503, "UNAVAILABLE", Retry_After="7"), polled(command(1)), reply(OK))
        server.add(polled(command(2)), reply(OK))
        executed: list[str] = []

        def execute(found: Command) -> Result:
            executed.append(found.command_id)
            if len(executed) == 2:
                collector.stop()
            return Result()

        collector.run(execute)
        assert executed == ["cmd_1", "cmd_2"]
        assert len(acks(server)) == 2
        assert collector.pauses[0] <= 1
        assert 7 <= collector.pauses[1] <= 8
        assert "wait=25" in server.requests[0].path

    def test_no_secret_in_repr(self, make: MakeCollector) -> None:
        collector = make()
        assert "ed_secret" not in repr(collector)
        assert SECRET not in repr(OPTIONS)
