"""Several nodes with waiters at the same sites, joined by a bus that can drop messages."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from restante.commands.polling.queue_versions import QueueVersions
from restante.commands.polling.wake_coordinator import (
    FOLLOW_SECONDS,
    SERVED_WITHIN_SECONDS,
    SITES_AT_ONCE,
    ServeSite,
    SiteServed,
    SitesWaiting,
    WakeCoordinator,
    choose_node,
    nodes_in_order,
)
from restante.database.commit_events import ClusterMessage

NEVER = float("inf")
SITE = 5


class Waiter:
    def __init__(self, node: "SimulatedNode", site_id: int, zone: int | None) -> None:
        self.node = node
        self.key = site_id
        self.zone = zone
        self.notification = node.last_notified(site_id)


class Timer:
    """As asyncio's, in the cluster's time."""

    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at = at
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class SimulatedNode(WakeCoordinator[Waiter]):
    def __init__(self, cluster: "SimulatedCluster", name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.claims = 0
        self.is_dead = False
        # Wakes its waiters, and does not get to their claims.
        self.is_dying = False
        # A claim takes its time: it begins when its waiter is woken, and ends when the cluster runs it.
        super().__init__(cluster.claiming.append, QueueVersions(), lambda: cluster.now)
        self.join(name, self.publish)

    def _call_at(self, until: float, site_id: int) -> Any:
        timer = Timer(until, lambda: self._timer_fired(site_id))
        self.cluster.timers.append(timer)
        return timer

    def add_waiter(self, site_id: int = SITE, zone: int | None = None, until: float = NEVER) -> Waiter:
        waiter = Waiter(self, site_id, zone)
        self.park(waiter, until)
        return waiter

    def publish(self, message: ClusterMessage) -> None:
        if not self.cluster.is_cut:
            self.cluster.sent.append((self.name, message))

    def claim(self, waiter: Waiter) -> None:
        """As a poll's claim does: takes one command at most, and passes on what it leaves behind."""
        if self.is_dying:
            return
        self.claims += 1
        # No notification comes between here and the end of the claim.
        waiter.notification = self.last_notified(waiter.key)
        queue = self.cluster.queues.setdefault(waiter.key, [])
        fit = [zone for zone in queue if waiter.zone in (None, zone)]
        if fit:
            queue.remove(fit[0])
            self.cluster.served_by.append(self.name)
        else:
            self.park(waiter, self.cluster.next_due)
        if len(fit) > 1 or waiter.zone is not None:
            if not self.wake(waiter.key):
                self.pass_on(waiter.key)
        else:
            again = self.cluster.next_due - self.cluster.now
            self.mark_served(waiter.key, waiter.notification, None if again == NEVER else again)


class SimulatedCluster:
    def __init__(self, *names: str) -> None:
        self.now = 100.0
        self.commits = 0
        self.queues: dict[int, list[int]] = {}
        self.served_by: list[str] = []
        self.sent: list[tuple[str, ClusterMessage]] = []
        self.claiming: list[Waiter] = []
        self.timers: list[Timer] = []
        self.is_cut = False
        # The next due time that claims report.
        self.next_due = NEVER
        self.nodes = {name: SimulatedNode(self, name) for name in names}

    def others(self, name: str) -> Iterator[SimulatedNode]:
        return (node for node in self.nodes.values() if node.name != name and not node.is_dead)

    def deliver(self) -> None:
        """Deliver messages and run claims until there are none left."""
        for _ in range(1000):
            if self.sent:
                sender, message = self.sent.pop(0)
                for node in self.others(sender):
                    node.handle_message(message, sender)
            elif self.claiming:
                waiter = self.claiming.pop(0)
                waiter.node.claim(waiter)
            else:
                return
        raise AssertionError("the nodes never stop sending messages")

    def command(self, at: str, zone: int = 1, *, is_published: bool = True) -> None:
        """A commit on a node adds a command. Without `is_published` the node dies before it chooses who serves it."""
        self.commits += 1
        self.queues.setdefault(SITE, []).append(zone)
        node = self.nodes[at]
        to = ""
        if is_published:
            node.changed_here(SITE)
            to = node.serving_node(SITE, self.commits)
        for other in self.others(at):
            other.changed_elsewhere(SITE, self.commits, to)
        self.deliver()

    def pass_time(self, seconds: float = SERVED_WITHIN_SECONDS + 1) -> None:
        self.now += seconds
        for node in self.others(""):
            node.tick()
        self.deliver()

    def advance_to(self, time: float) -> None:
        """Fire the timers that are due until then, each at its time; those of the same time before any message."""
        while due := [timer for timer in self.timers if not timer.is_cancelled and timer.at <= time]:
            self.now = min(timer.at for timer in due)
            for timer in [timer for timer in due if timer.at == self.now]:
                self.timers.remove(timer)
                if not timer.is_cancelled:
                    timer.call()
            self.deliver()
        self.now = time

    def add_due_command(self) -> None:
        """Add the command that becomes due at the due time that all nodes know."""
        self.queues.setdefault(SITE, []).append(1)

    @property
    def claims(self) -> int:
        return sum(node.claims for node in self.nodes.values())


@pytest.fixture
def cluster() -> SimulatedCluster:
    return SimulatedCluster("north", "east", "south", "west")


def test_one_command_makes_one_node_claim_once(cluster: SimulatedCluster) -> None:
    for node in cluster.nodes.values():
        for _ in range(3):
            node.add_waiter()
    cluster.deliver()
    for count, at in enumerate(["north", "south", "north", "west"], 1):
        cluster.command(at)
        assert cluster.claims == count
        assert cluster.served_by[-1] == at
    cluster.pass_time()
    assert cluster.claims == 4


def test_node_without_waiters_chooses_one_that_has_some(cluster: SimulatedCluster) -> None:
    for name in ("east", "south"):
        cluster.nodes[name].add_waiter()
        cluster.nodes[name].add_waiter()
    cluster.deliver()
    for count in (1, 2, 3, 4):
        cluster.command("north")
        assert (cluster.claims, len(cluster.served_by)) == (count, count)
    assert sorted(cluster.served_by) == ["east", "east", "south", "south"]
    cluster.pass_time()
    assert cluster.claims == 4


def test_changes_are_spread_over_the_nodes() -> None:
    nodes = ["north", "east", "south"]
    chosen = [choose_node(nodes, commit_id) for commit_id in range(300)]
    assert all(chosen.count(node) > 50 for node in nodes)
    assert any(first != second for first, second in pairwise(chosen))


def test_node_whose_waiters_have_left_passes_the_change_on(cluster: SimulatedCluster) -> None:
    gone = [(name, cluster.nodes[name].add_waiter()) for name in ("east", "south")]
    cluster.nodes["west"].add_waiter()
    cluster.deliver()
    for name, waiter in gone:
        cluster.nodes[name].leave(waiter)
    cluster.command("north")
    assert cluster.served_by == ["west"]
    assert cluster.claims == 1


def test_command_for_another_zone_is_passed_on(cluster: SimulatedCluster) -> None:
    cluster.nodes["north"].add_waiter(zone=2)
    cluster.nodes["east"].add_waiter(zone=2)
    cluster.nodes["south"].add_waiter(zone=1)
    cluster.deliver()
    cluster.command("north", zone=1)
    assert cluster.served_by == ["south"]
    # No node is tried twice.
    assert cluster.claims <= 3


def test_command_that_no_waiter_can_take_is_tried_once_per_node(cluster: SimulatedCluster) -> None:
    for node in cluster.nodes.values():
        node.add_waiter(zone=2)
    cluster.deliver()
    cluster.command("north", zone=1)
    assert cluster.claims == 4
    cluster.pass_time()
    assert cluster.claims == 4


def test_change_for_a_dead_node_is_served_by_another_after_a_while(cluster: SimulatedCluster) -> None:
    for name in ("east", "south"):
        cluster.nodes[name].add_waiter()
    cluster.deliver()
    dead = choose_node(["east", "south"], 1)
    cluster.nodes[dead].is_dead = True
    cluster.command("north")
    assert cluster.served_by == []
    cluster.pass_time(SERVED_WITHIN_SECONDS / 2)
    assert cluster.served_by == []
    cluster.pass_time()
    assert cluster.served_by == [({"east", "south"} - {dead}).pop()]
    # It is not chosen again: the other nodes have removed it.
    alive = next(node for node in cluster.nodes.values() if node.name in ("east", "south") and not node.is_dead)
    alive.add_waiter()
    cluster.deliver()
    for _ in range(10):
        cluster.command("north")
        assert cluster.served_by[-1] == alive.name
        alive.add_waiter()
        cluster.deliver()


def test_change_without_a_chosen_node_is_served_by_the_one_all_nodes_choose(cluster: SimulatedCluster) -> None:
    for name in ("east", "south", "west"):
        cluster.nodes[name].add_waiter()
        cluster.nodes[name].add_waiter()
    cluster.deliver()
    cluster.command("north", is_published=False)
    assert cluster.claims == 1
    cluster.pass_time()
    assert cluster.claims == 1


def test_waiter_that_was_never_published_is_woken(cluster: SimulatedCluster) -> None:
    cluster.nodes["east"].add_waiter()
    cluster.sent.clear()
    cluster.command("north")
    assert cluster.served_by == ["east"]


def test_unserved_change_is_served_by_a_node_that_received_it(cluster: SimulatedCluster) -> None:
    cluster.nodes["east"].add_waiter()
    cluster.nodes["south"].add_waiter()
    cluster.deliver()
    cluster.queues[SITE] = [1]
    # As from a node that died before it could serve the change.
    cluster.nodes["south"].changed_elsewhere(SITE, 1, "unknown node")
    cluster.deliver()
    assert cluster.served_by == []
    cluster.pass_time()
    assert cluster.served_by == ["south"]


def test_older_served_message_does_not_cover_a_newer_change(cluster: SimulatedCluster) -> None:
    south = cluster.nodes["south"]
    south.add_waiter()
    cluster.queues[SITE] = [1]
    south.changed_elsewhere(SITE, 8, "east")
    south.handle_message(SiteServed(SITE, 7), "east")
    cluster.pass_time()
    assert cluster.served_by == ["south"]


def test_change_that_arrives_after_it_was_served_is_not_claimed_again(cluster: SimulatedCluster) -> None:
    node = cluster.nodes["south"]
    node.add_waiter()
    node.handle_message(SiteServed(SITE, 7), "east")
    node.changed_elsewhere(SITE, 7, "east")
    cluster.pass_time()
    assert node.claims == 0
    # A newer change is not covered.
    node.changed_elsewhere(SITE, 8, "east")
    cluster.pass_time()
    assert node.claims == 1


def test_change_that_is_passed_to_a_node_is_claimed_there_once(cluster: SimulatedCluster) -> None:
    south = cluster.nodes["south"]
    south.add_waiter()
    south.add_waiter()
    cluster.queues[SITE] = [1]
    south.changed_elsewhere(SITE, 7, "east")
    south.handle_message(ServeSite(SITE, 7, "south", ("east",)), "east")
    cluster.deliver()
    cluster.pass_time()
    assert cluster.served_by == ["south"]
    assert south.claims == 1


def test_rejoining_node_learns_where_waiters_are(cluster: SimulatedCluster) -> None:
    east = cluster.nodes["east"]
    for site_id in range(1, SITES_AT_ONCE + 2):
        east.add_waiter(site_id)
    cluster.sent.clear()
    cluster.nodes["north"].rejoin()
    messages = []
    while cluster.sent:
        messages.append(cluster.sent.pop(0))
        for node in cluster.others(messages[-1][0]):
            node.handle_message(messages[-1][1], messages[-1][0])
    assert [len(message.site_ids) for _, message in messages if isinstance(message, SitesWaiting)] == [SITES_AT_ONCE, 1]
    cluster.command("north")
    assert cluster.served_by == ["east"]


def test_closed_node_is_not_chosen(cluster: SimulatedCluster) -> None:
    for name in ("east", "south"):
        cluster.nodes[name].add_waiter()
    cluster.deliver()
    cluster.nodes["east"].close()
    cluster.nodes["east"].is_dead = True
    cluster.deliver()
    for _ in range(5):
        cluster.command("north")
        cluster.nodes["south"].add_waiter()
        cluster.deliver()
    assert cluster.served_by == ["south"] * 5


DUE_TIME = 150.0


@pytest.fixture
def cluster_with_due_time(cluster: SimulatedCluster) -> SimulatedCluster:
    """Every node has three waiters, and all know the same due time."""
    for node in cluster.nodes.values():
        for _ in range(3):
            node.add_waiter(until=DUE_TIME)
    cluster.deliver()
    return cluster


def test_due_time_makes_one_node_claim_once(cluster_with_due_time: SimulatedCluster) -> None:
    cluster = cluster_with_due_time
    first = nodes_in_order(cluster.nodes, SITE)[0]
    cluster.next_due = 200.0
    cluster.add_due_command()
    cluster.advance_to(DUE_TIME + 10)
    cluster.pass_time()
    assert (cluster.claims, cluster.served_by) == (1, [first])
    # The other nodes have received the next due time, and one node claims at that one, too.
    cluster.next_due = NEVER
    cluster.add_due_command()
    cluster.advance_to(210.0)
    assert (cluster.claims, cluster.served_by) == (2, [first, first])


def test_due_times_of_sites_are_spread_over_the_nodes() -> None:
    firsts = [nodes_in_order(["north", "east", "south"], site_id)[0] for site_id in range(300)]
    assert all(firsts.count(node) > 50 for node in ("north", "east", "south"))


def test_due_time_without_a_command_costs_one_claim(cluster_with_due_time: SimulatedCluster) -> None:
    cluster_with_due_time.advance_to(DUE_TIME + 10)
    cluster_with_due_time.pass_time()
    assert cluster_with_due_time.claims == 1


def test_next_node_claims_later_if_the_first_has_no_waiter(
    cluster_with_due_time: SimulatedCluster,
) -> None:
    cluster = cluster_with_due_time
    first, second, *_others = nodes_in_order(cluster.nodes, SITE)
    for waiter in list(cluster.nodes[first].all_waiters()):
        cluster.nodes[first].leave(waiter)
    cluster.add_due_command()
    cluster.advance_to(DUE_TIME + FOLLOW_SECONDS * 0.9)
    assert cluster.claims == 0
    cluster.advance_to(DUE_TIME + 10)
    assert (cluster.claims, cluster.served_by) == (1, [second])


def test_other_nodes_claim_after_a_while_if_the_first_dies(
    cluster_with_due_time: SimulatedCluster,
) -> None:
    cluster = cluster_with_due_time
    first = nodes_in_order(cluster.nodes, SITE)[0]
    cluster.add_due_command()
    cluster.nodes[first].is_dying = True
    cluster.advance_to(DUE_TIME + 1)
    cluster.nodes[first].is_dead = True
    assert cluster.served_by == []
    cluster.pass_time()
    assert len(cluster.served_by) == 1


def test_lost_messages_cost_extra_claims_only(cluster_with_due_time: SimulatedCluster) -> None:
    cluster = cluster_with_due_time
    cluster.add_due_command()
    cluster.is_cut = True
    cluster.advance_to(DUE_TIME + 10)
    assert cluster.claims == len(cluster.nodes)
    assert len(cluster.served_by) == 1


def test_command_that_the_first_node_cannot_take_is_passed_on(cluster: SimulatedCluster) -> None:
    first, *others = nodes_in_order(cluster.nodes, SITE)
    cluster.nodes[first].add_waiter(zone=2, until=DUE_TIME)
    for name in others:
        cluster.nodes[name].add_waiter(zone=1, until=DUE_TIME)
    cluster.deliver()
    cluster.add_due_command()
    cluster.advance_to(DUE_TIME + 10)
    assert len(cluster.served_by) == 1
    assert cluster.served_by[0] in others
