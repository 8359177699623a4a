from pathlib import Path

import pytest

from restante.database.clocks import steady_clock
from restante.database.clocks.steady_clock import SteadyClock

HOUR = 3600 * 10**9
SECOND = 10**9


class Machine:
    """A machine whose clock can be set."""

    def __init__(self) -> None:
        self.wall = 1_800_000_000 * SECOND
        self.since_boot = 500 * SECOND

    def wait(self, nanoseconds: int) -> None:
        self.wall += nanoseconds
        self.since_boot += nanoseconds

    def clock(self, folder: Path) -> SteadyClock:
        return SteadyClock(folder / "restante.clock", lambda: self.wall, lambda: self.since_boot)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_clock_follows_the_machine(tmp_path: Path, machine: Machine) -> None:
    clock = machine.clock(tmp_path)
    for step in (SECOND, HOUR, 1, 10**6):
        machine.wait(step)
        assert clock() == machine.wall // 10**6
        assert clock.seconds_ahead() == 0
    machine.wall += HOUR
    assert clock.seconds() == machine.wall / SECOND


def test_clock_set_back_goes_on_at_three_quarters_until_caught_up(tmp_path: Path, machine: Machine) -> None:
    clock = machine.clock(tmp_path)
    before = clock()
    machine.wall -= HOUR
    assert clock() == before
    assert clock.seconds_ahead() == 3600
    # Many readings, each of less than a millisecond, add up.
    for _ in range(4000):
        machine.wait(SECOND // 1000)
        clock()
    assert clock() - before == 3000
    machine.wait(4 * HOUR)
    assert clock() == machine.wall // 10**6


def test_next_process_of_the_same_boot_does_not_go_back(tmp_path: Path, machine: Machine) -> None:
    first = machine.clock(tmp_path)
    first.save()
    before = first()
    machine.wall -= HOUR
    machine.wait(4 * SECOND)
    assert machine.clock(tmp_path)() - before == 3000


def test_saved_time_of_another_boot_does_not_count(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.clock(tmp_path).save()
    machine.wall -= HOUR
    monkeypatch.setattr(steady_clock, "_BOOT_ID_PATH", tmp_path / "other")
    (tmp_path / "other").write_text("00000000-0000-0000-0000-000000000000\n")
    assert machine.clock(tmp_path)() == machine.wall // 10**6
    (tmp_path / "other").unlink()
    assert machine.clock(tmp_path)() == machine.wall // 10**6


@pytest.mark.parametrize("content", [b"", b"x" * 52, b"x" * 1000])
def test_unreadable_file_does_not_count(tmp_path: Path, machine: Machine, content: bytes) -> None:
    (tmp_path / "restante.clock").write_bytes(content)
    assert machine.clock(tmp_path)() == machine.wall // 10**6


def test_folder_that_cannot_be_written_stops_nothing(tmp_path: Path, machine: Machine) -> None:
    clock = machine.clock(tmp_path / "absent")
    clock.save()
    assert clock() == machine.wall // 10**6
