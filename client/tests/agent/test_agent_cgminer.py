"""The CGMiner driver against simulated miners, and against replies that firmware in the field sends."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from restante_client.agent.collector.cgminer import DIALECTS, CgMiner
from restante_client.agent.collector.cgminer_api import CgMinerApi, checked, decode, escaped
from restante_client.agent.collector.drivers import MinerRefused, MinerUnreachable, NoAnswer, NotSupported, Pool
from restante_client.agent.collector.simulated import (
    FAULT_SECONDS,
    Faults,
    SimulatedMiner,
    SimulatedMinerServer,
    simulated_miners,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def simulated(clock: Clock) -> Iterator[SimulatedMinerServer]:
    with SimulatedMinerServer(SimulatedMiner(seed=7, clock=clock)) as server:
        yield server


@pytest.fixture
def miner(simulated: SimulatedMinerServer) -> CgMiner:
    return CgMiner(CgMinerApi("127.0.0.1", simulated.port, 10), DIALECTS["cgminer"])


class TestOperations:
    def test_reading_has_all_measurements_in_the_units_of_the_server(self, miner: CgMiner) -> None:
        found = miner.read().measurements()
        assert found == {
            "hashrate": 100.0,
            "temp_max": 60.0,
            "temp_avg": 59.0,
            "power": 3060.0,
            "fan_rpm_min": 3600,
            "fan_rpm_max": 3600,
            "frequency": 500.0,
            "is_hashing": True,
            "pool": "stratum+tcp://pool.example:3333",
            "uptime_seconds": 0,
        }

    def test_each_operation_reaches_the_miner(self, miner: CgMiner, simulated: SimulatedMinerServer) -> None:
        miner.set_frequency(450)
        miner.set_fan(80)
        miner.set_power_mode("LOW")
        assert (simulated.miner.frequency, simulated.miner.fan_percent, simulated.miner.work_mode) == (450, 80, 0)
        miner.disable()
        assert miner.read().is_hashing is False
        miner.disable()
        miner.enable()
        assert miner.read().is_hashing is True
        miner.reboot()
        miner.restart()
        assert [command for command, _ in simulated.executed()[-2:]] == ["ascset", "restart"]

    def test_pool_is_added_selected_and_its_older_entry_removed(
        self, miner: CgMiner, simulated: SimulatedMinerServer
    ) -> None:
        pool = Pool("stratum+tcp://user:secret@new.example:3333", "farm,1", "pass\\word,")
        for _ in range(3):
            assert miner.set_pool(pool) == "pool stratum+tcp://new.example:3333 selected"
        assert [found["User"] for found in simulated.miner.pools] == ["farm.1", "farm,1"]
        assert miner.read().pool == "stratum+tcp://new.example:3333"
        assert "secret" not in repr(pool).replace("user:secret", "")
        assert "pass" not in repr(pool).replace("password", "")

    def test_known_pool_is_enabled_and_selected(self, miner: CgMiner, simulated: SimulatedMinerServer) -> None:
        miner.api.call("disablepool", "0")
        miner.select_pool(0)
        assert simulated.miner.pools[0]["Status"] == "Alive"
        with pytest.raises(MinerRefused, match="no pool 7"):
            miner.select_pool(7)

    def test_refusal_has_the_code_of_the_miner(self, miner: CgMiner) -> None:
        with pytest.raises(MinerRefused, match="expected 100 to 1000") as found:
            miner.set_frequency(9000)
        assert found.value.code == "MINER_120"

    def test_operation_can_be_taken_away_by_the_inventory(self, miner: CgMiner) -> None:
        other = CgMiner(miner.api, {**DIALECTS["avalon"], "reboot": ""})
        with pytest.raises(NotSupported):
            other.reboot()
        with pytest.raises(MinerRefused, match="fan-spd"):
            other.set_fan(50)

    def test_doctor_shows_the_version(self, miner: CgMiner) -> None:
        assert miner.check() == "Simulated miner 4.11.1 3.7"


class TestSimulation:
    def test_it_heats_up_fails_cools_down_and_recovers(
        self, miner: CgMiner, simulated: SimulatedMinerServer, clock: Clock
    ) -> None:
        miner.set_frequency(900)
        miner.set_fan(0)
        clock.now += 5
        assert 60 < (miner.read().temp_max or 0) < 110
        clock.now += 600
        with pytest.raises(NoAnswer):
            miner.read()
        clock.now += 600
        assert (miner.read().temp_max or 999) < 60

    def test_same_seed_gives_the_same_readings(self) -> None:
        readings = []
        for _ in range(2):
            clock = Clock()
            miner = SimulatedMiner(seed=3, clock=clock)
            found = []
            for _ in range(5):
                clock.now += 10
                miner.advance()
                found.append(miner.temperature)
            readings.append(found)
        assert readings[0] == readings[1]

    def test_restarting_miner_does_not_answer_for_a_while(
        self, miner: CgMiner, simulated: SimulatedMinerServer, clock: Clock
    ) -> None:
        simulated.miner.restart_seconds = 30
        miner.restart()
        with pytest.raises(NoAnswer):
            miner.read()
        clock.now += 30
        assert miner.read().uptime_seconds == 30

    def test_several_miners_have_ports_of_their_own(self) -> None:
        with simulated_miners(3) as servers:
            assert len({server.port for server in servers}) == 3


class TestReplies:
    def test_closed_port_means_that_nothing_was_sent(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with pytest.raises(MinerUnreachable):
            CgMinerApi("127.0.0.1", port).call("summary")

    def test_lost_answer_means_that_it_may_have_been_done(
        self, miner: CgMiner, simulated: SimulatedMinerServer
    ) -> None:
        simulated.is_losing_answers = True
        with pytest.raises(NoAnswer):
            miner.api.call("ascset", "0,freq,450")
        assert simulated.miner.frequency == 450
        # A restart that ends the connection is one.
        miner.restart()

    def test_slow_answer_is_given_up(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening, pytest.raises(NoAnswer):
            CgMinerApi("127.0.0.1", listening.getsockname()[1], 0.2).call("summary")

    def test_endless_answer_is_given_up(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:

            def pour() -> None:
                connection, _ = listening.accept()
                with connection:
                    try:
                        while True:
                            connection.sendall(b" " * 65_536)
                    except OSError:
                        return

            pouring = threading.Thread(target=pour)
            pouring.start()
            with pytest.raises(NoAnswer, match="larger than"):
                CgMinerApi("127.0.0.1", listening.getsockname()[1]).call("summary")
            pouring.join(30)

    @pytest.mark.parametrize(
        "reply",
        [
            b'{"STATUS":[{"STATUS":"S","Code":11,"Msg":"x"}],"id":1}\0',
            b'{"STATUS":[{"STATUS":"S","Code":11,"Msg":"x"}],\0"id":1}\0\0',
            b'{"STATUS":[{"STATUS":"S","Code":11,"Msg":"a\tb"}],"STATS":[{"a":1}{"b":2}]}',
        ],
    )
    def test_replies_of_firmware_are_read(self, reply: bytes) -> None:
        assert checked(decode(reply, "stats"), "stats")["STATUS"]

    @pytest.mark.parametrize("reply", [b"", b"{", b"[]", b'"x"', b'{"RESTART"'])
    def test_text_that_is_no_reply_is_no_answer(self, reply: bytes) -> None:
        with pytest.raises(NoAnswer):
            decode(reply, "stats")

    @pytest.mark.parametrize("reply", [{}, {"STATUS": []}, {"STATUS": [1]}, {"STATUS": [{}]}])
    def test_reply_without_status_is_no_answer(self, reply: dict[str, Any]) -> None:
        with pytest.raises(NoAnswer):
            checked(reply, "stats")

    def test_commas_and_backslashes_are_escaped(self) -> None:
        assert escaped("a,b\\c") == "a\\,b\\\\c"


def test_faults_heat_miners_up_and_are_repaired() -> None:
    clock = Clock()
    miners = [SimulatedMiner(seed, clock=lambda: clock.now) for seed in range(4)]
    with contextlib.ExitStack() as stack:
        faults = Faults([stack.enter_context(SimulatedMinerServer(miner)) for miner in miners], 1, lambda: clock.now)
        faults.step()
        (broken,) = [miner for miner in miners if (miner.frequency, miner.fan_percent) != (500, 60)]
        clock.now += 100
        broken.advance()
        assert broken.is_failed or broken.temperature > 90
        clock.now += FAULT_SECONDS
        faults.step()
        assert (broken.frequency, broken.fan_percent) == (500, 60)
        clock.now += 300
        broken.advance()
        assert not broken.is_failed
        assert broken.temperature < 90
