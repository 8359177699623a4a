"""Several nodes with waiters at the same sites, joined by a wire that loses what a test wants it to lose."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from restante.commands.site_bell import SiteBell
from restante.commands.site_neighbours import (
    FOLLOW_SECONDS,
    SERVED_WITHIN_SECONDS,
    SITES_AT_ONCE,
    SiteMessage,
    SiteNeighbours,
    SiteServed,
    SitesWaiting,
    chosen,
    in_order,
)

NEVER = float("inf")
SITE = 5


class Waiter:
    def __init__(self, node: "FarNode", site_id: int, zone: int | None) -> None:
        self.node = node
        self.site_id = site_id
        self.zone = zone
        self.looked_at = node.bell.last_ring(site_id)


class Timer:
    """As asyncio's, in the town's time."""

    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at = at
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class TownBell(SiteBell[Waiter]):
    town: "Town"

    def _call_at(self, until: float, site_id: int) -> Any:
        timer = Timer(until, lambda: self._moment_came(site_id))
        self.town.timers.append(timer)
        return timer


class FarNode:
    def __init__(self, town: "Town", name: str) -> None:
        self.town = town
        self.name = name
        self.looks = 0
        self.is_dead = False
        # Wakes its waiters, and does not get to their claims.
        self.is_dying = False
        # A claim takes its time: it begins with the ring, and ends when the town gets to it.
        self.bell = TownBell(town.looking.append, lambda: town.now)
        self.bell.town = town
        self.neighbours = SiteNeighbours(self.bell, name, self.send, lambda: town.now)

    def park(self, site_id: int = SITE, zone: int | None = None, until: float = NEVER) -> Waiter:
        waiter = Waiter(self, site_id, zone)
        self.bell.park(waiter, until)
        return waiter

    def send(self, message: SiteMessage) -> None:
        if not self.town.is_cut:
            self.town.sent.append((self.name, message))

    def look(self, waiter: Waiter) -> None:
        """As a poll's claim does: takes one command at most, and passes on what it leaves behind."""
        if self.is_dying:
            return
        self.looks += 1
        # Nobody rings between here and the end of the look.
        waiter.looked_at = self.bell.last_ring(waiter.site_id)
        queue = self.town.queues.setdefault(waiter.site_id, [])
        fit = [zone for zone in queue if waiter.zone in (None, zone)]
        if fit:
            queue.remove(fit[0])
            self.town.served_by.append(self.name)
        else:
            self.bell.park(waiter, self.town.next_moment)
        if len(fit) > 1 or waiter.zone is not None:
            if not self.bell.wake_next(waiter.site_id):
                self.neighbours.left_behind(waiter.site_id)
        else:
            again = self.town.next_moment - self.town.now
            self.neighbours.served(waiter.site_id, waiter.looked_at, None if again == NEVER else again)


class Town:
    def __init__(self, *names: str) -> None:
        self.now = 100.0
        self.rings = 0
        self.queues: dict[int, list[int]] = {}
        self.served_by: list[str] = []
        self.sent: list[tuple[str, SiteMessage]] = []
        self.looking: list[Waiter] = []
        self.timers: list[Timer] = []
        self.is_cut = False
        # When a look is told that there may be something again.
        self.next_moment = NEVER
        self.nodes = {name: FarNode(self, name) for name in names}

    def others(self, name: str) -> Iterator[FarNode]:
        return (node for node in self.nodes.values() if node.name != name and not node.is_dead)

    def deliver(self) -> None:
        """Until nobody has anything more to say."""
        for _ in range(1000):
            if self.sent:
                sender, message = self.sent.pop(0)
                for node in self.others(sender):
                    node.neighbours.hear(message, sender)
            elif self.looking:
                waiter = self.looking.pop(0)
                waiter.node.look(waiter)
            else:
                return
        raise AssertionError("they never stop talking")

    def command(self, at: str, zone: int = 1, *, is_told: bool = True) -> None:
        """A commit at a node adds a command; `is_told` as by a node that lives to say who is to serve it."""
        self.rings += 1
        self.queues.setdefault(SITE, []).append(zone)
        node = self.nodes[at]
        to = ""
        if is_told:
            node.neighbours.changed_here(SITE)
            to = node.neighbours.to_serve(SITE, self.rings)
        for other in self.others(at):
            other.neighbours.changed_elsewhere(SITE, self.rings, to)
        self.deliver()

    def pass_time(self, seconds: float = SERVED_WITHIN_SECONDS + 1) -> None:
        self.now += seconds
        for node in self.others(""):
            node.neighbours.tick()
        self.deliver()

    def go_to(self, moment: float) -> None:
        """Let the timers ring that are due until then, each in its own moment; those of one moment before a word of it
        is heard."""
        while due := [timer for timer in self.timers if not timer.is_cancelled and timer.at <= moment]:
            self.now = min(timer.at for timer in due)
            for timer in [timer for timer in due if timer.at == self.now]:
                self.timers.remove(timer)
                if not timer.is_cancelled:
                    timer.call()
            self.deliver()
        self.now = moment

    def become_due(self) -> None:
        """What is known to all becomes due at the next moment."""
        self.queues.setdefault(SITE, []).append(1)

    @property
    def looks(self) -> int:
        return sum(node.looks for node in self.nodes.values())


@pytest.fixture
def town() -> Town:
    return Town("north", "east", "south", "west")


def test_one_command_makes_one_node_look_once(town: Town) -> None:
    for node in town.nodes.values():
        for _ in range(3):
            node.park()
    town.deliver()
    for count, at in enumerate(["north", "south", "north", "west"], 1):
        town.command(at)
        assert town.looks == count
        assert town.served_by[-1] == at
    town.pass_time()
    assert town.looks == 4


def test_a_node_without_waiters_asks_one_that_has_some(town: Town) -> None:
    for name in ("east", "south"):
        town.nodes[name].park()
        town.nodes[name].park()
    town.deliver()
    for count in (1, 2, 3, 4):
        town.command("north")
        assert (town.looks, len(town.served_by)) == (count, count)
    assert sorted(town.served_by) == ["east", "east", "south", "south"]
    town.pass_time()
    assert town.looks == 4


def test_the_work_is_spread_over_the_nodes() -> None:
    nodes = ["north", "east", "south"]
    taken = [chosen(nodes, ring_id) for ring_id in range(300)]
    assert all(taken.count(node) > 50 for node in nodes)
    assert any(first != second for first, second in pairwise(taken))


def test_a_node_whose_waiters_are_gone_passes_the_change_on(town: Town) -> None:
    gone = [(name, town.nodes[name].park()) for name in ("east", "south")]
    town.nodes["west"].park()
    town.deliver()
    for name, waiter in gone:
        town.nodes[name].bell.leave(waiter)
    town.command("north")
    assert town.served_by == ["west"]
    assert town.looks == 1


def test_what_a_collector_of_another_zone_cannot_take_is_passed_on(town: Town) -> None:
    town.nodes["north"].park(zone=2)
    town.nodes["east"].park(zone=2)
    town.nodes["south"].park(zone=1)
    town.deliver()
    town.command("north", zone=1)
    assert town.served_by == ["south"]
    # Nobody is asked twice.
    assert town.looks <= 3


def test_commands_that_nobody_can_take_do_not_go_round_for_ever(town: Town) -> None:
    for node in town.nodes.values():
        node.park(zone=2)
    town.deliver()
    town.command("north", zone=1)
    assert town.looks == 4
    town.pass_time()
    assert town.looks == 4


def test_what_a_dead_node_was_to_serve_others_serve_after_a_while(town: Town) -> None:
    for name in ("east", "south"):
        town.nodes[name].park()
    town.deliver()
    dead = chosen(["east", "south"], 1)
    town.nodes[dead].is_dead = True
    town.command("north")
    assert town.served_by == []
    town.pass_time(SERVED_WITHIN_SECONDS / 2)
    assert town.served_by == []
    town.pass_time()
    assert town.served_by == [({"east", "south"} - {dead}).pop()]
    # It is not asked again: nobody knows any more that somebody waits there.
    alive = next(node for node in town.nodes.values() if node.name in ("east", "south") and not node.is_dead)
    alive.park()
    town.deliver()
    for _ in range(10):
        town.command("north")
        assert town.served_by[-1] == alive.name
        alive.park()
        town.deliver()


def test_a_change_told_by_nobody_is_served_by_one_all_agree_on(town: Town) -> None:
    for name in ("east", "south", "west"):
        town.nodes[name].park()
        town.nodes[name].park()
    town.deliver()
    town.command("north", is_told=False)
    assert town.looks == 1
    town.pass_time()
    assert town.looks == 1


def test_a_waiter_nobody_has_heard_of_is_woken(town: Town) -> None:
    town.nodes["east"].park()
    town.sent.clear()
    town.command("north")
    assert town.served_by == ["east"]


def test_a_change_that_was_not_served_is_seen_by_those_who_only_heard_of_it(town: Town) -> None:
    town.nodes["east"].park()
    town.nodes["south"].park()
    town.deliver()
    town.queues[SITE] = [1]
    # As if the word had come from a node that has gone with it.
    town.nodes["south"].neighbours.changed_elsewhere(SITE, 1, "nobody we know")
    town.deliver()
    assert town.served_by == []
    town.pass_time()
    assert town.served_by == ["south"]


def test_an_old_answer_does_not_settle_a_newer_change(town: Town) -> None:
    south = town.nodes["south"]
    south.park()
    town.queues[SITE] = [1]
    south.neighbours.changed_elsewhere(SITE, 8, "east")
    south.neighbours.hear(SiteServed(SITE, 7), "east")
    town.pass_time()
    assert town.served_by == ["south"]


def test_a_node_that_begins_again_is_told_who_waits(town: Town) -> None:
    east = town.nodes["east"]
    for site_id in range(1, SITES_AT_ONCE + 2):
        east.park(site_id)
    town.sent.clear()
    town.nodes["north"].neighbours.start_again()
    said = []
    while town.sent:
        said.append(town.sent.pop(0))
        for node in town.others(said[-1][0]):
            node.neighbours.hear(said[-1][1], said[-1][0])
    assert [len(message.site_ids) for _, message in said if isinstance(message, SitesWaiting)] == [SITES_AT_ONCE, 1]
    town.command("north")
    assert town.served_by == ["east"]


def test_a_node_that_goes_is_not_asked(town: Town) -> None:
    for name in ("east", "south"):
        town.nodes[name].park()
    town.deliver()
    town.nodes["east"].neighbours.close()
    town.nodes["east"].is_dead = True
    town.deliver()
    for _ in range(5):
        town.command("north")
        town.nodes["south"].park()
        town.deliver()
    assert town.served_by == ["south"] * 5


MOMENT = 150.0


@pytest.fixture
def knowing_town(town: Town) -> Town:
    """Three wait at every node, and all know of the same moment."""
    for node in town.nodes.values():
        for _ in range(3):
            node.park(until=MOMENT)
    town.deliver()
    return town


def test_when_a_moment_comes_one_node_looks_once(knowing_town: Town) -> None:
    town = knowing_town
    first = in_order(town.nodes, SITE)[0]
    town.next_moment = 200.0
    town.become_due()
    town.go_to(MOMENT + 10)
    town.pass_time()
    assert (town.looks, town.served_by) == (1, [first])
    # Those who did not look have been told of the next moment, and at that one, too, one looks.
    town.next_moment = NEVER
    town.become_due()
    town.go_to(210.0)
    assert (town.looks, town.served_by) == (2, [first, first])


def test_sites_are_looked_at_by_different_nodes() -> None:
    firsts = [in_order(["north", "east", "south"], site_id)[0] for site_id in range(300)]
    assert all(firsts.count(node) > 50 for node in ("north", "east", "south"))


def test_a_moment_that_nobody_was_due_for_costs_one_look(knowing_town: Town) -> None:
    knowing_town.go_to(MOMENT + 10)
    knowing_town.pass_time()
    assert knowing_town.looks == 1


def test_where_the_first_has_nobody_any_more_the_next_looks_a_little_later(knowing_town: Town) -> None:
    town = knowing_town
    first, second, *_others = in_order(town.nodes, SITE)
    for waiter in list(town.nodes[first].bell.everyone_waiting()):
        town.nodes[first].bell.leave(waiter)
    town.become_due()
    town.go_to(MOMENT + FOLLOW_SECONDS * 0.9)
    assert town.looks == 0
    town.go_to(MOMENT + 10)
    assert (town.looks, town.served_by) == (1, [second])


def test_where_the_first_dies_over_its_look_the_others_look_after_a_while(knowing_town: Town) -> None:
    town = knowing_town
    first = in_order(town.nodes, SITE)[0]
    town.become_due()
    town.nodes[first].is_dying = True
    town.go_to(MOMENT + 1)
    town.nodes[first].is_dead = True
    assert town.served_by == []
    town.pass_time()
    assert len(town.served_by) == 1


def test_a_word_that_is_lost_costs_looks_and_nothing_else(knowing_town: Town) -> None:
    town = knowing_town
    town.become_due()
    town.is_cut = True
    town.go_to(MOMENT + 10)
    assert town.looks == len(town.nodes)
    assert len(town.served_by) == 1


def test_what_the_first_cannot_take_is_passed_on_as_ever(town: Town) -> None:
    first, *others = in_order(town.nodes, SITE)
    town.nodes[first].park(zone=2, until=MOMENT)
    for name in others:
        town.nodes[name].park(zone=1, until=MOMENT)
    town.deliver()
    town.become_due()
    town.go_to(MOMENT + 10)
    assert len(town.served_by) == 1
    assert town.served_by[0] in others
