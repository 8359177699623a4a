import pytest

from restante.core.commands.command_states import (
    ACTIVE,
    LEASED,
    TERMINAL,
    TRANSITIONS,
    Event,
    NoSuchTransition,
    State,
    diagram,
    next_state,
)


def test_every_state_is_active_or_terminal() -> None:
    assert set(State) == ACTIVE | TERMINAL
    assert not ACTIVE & TERMINAL
    assert LEASED < ACTIVE


def test_no_transition_leaves_a_terminal_state() -> None:
    assert {state for state, _event in TRANSITIONS} == set(ACTIVE)


def test_every_event_and_every_state_is_in_the_table() -> None:
    assert {event for _state, event in TRANSITIONS} == set(Event)
    assert set(TRANSITIONS.values()) | {State.pending_approval} == set(State)


def test_every_active_state_can_expire_and_be_cancelled() -> None:
    for state in ACTIVE:
        assert next_state(state, Event.expire) is State.expired
        assert next_state(state, Event.cancel) is State.cancelled


@pytest.mark.parametrize(
    ("state", "event", "target"),
    [
        ("pending_approval", Event.approve, State.pending),
        ("pending_approval", Event.deny, State.cancelled),
        ("pending", Event.dispatch, State.dispatched),
        ("dispatched", Event.run, State.running),
        ("running", Event.run, State.running),
        ("running", Event.succeed, State.succeeded),
        ("dispatched", Event.retry, State.pending),
        ("dispatched", Event.fail, State.failed),
        ("running", Event.defer, State.pending),
        ("dispatched", Event.reject, State.failed),
        ("running", Event.lose_lease, State.pending),
        ("dispatched", Event.give_up, State.failed),
    ],
)
def test_transition_follows_the_contract(state: str, event: Event, target: State) -> None:
    assert next_state(state, event) is target


@pytest.mark.parametrize(
    ("state", "event"),
    [
        ("pending_approval", Event.dispatch),
        ("pending", Event.succeed),
        ("pending", Event.approve),
        ("dispatched", Event.dispatch),
        ("succeeded", Event.cancel),
        ("expired", Event.run),
    ],
)
def test_transition_outside_the_table_is_refused(state: str, event: Event) -> None:
    with pytest.raises(NoSuchTransition) as refused:
        next_state(state, event)
    assert refused.value.status == 409
    assert state in refused.value.message


def test_diagram_shows_every_transition() -> None:
    lines = diagram().splitlines()
    assert lines[0] == "stateDiagram-v2"
    drawn = {
        (arrow.split(" --> ")[0], event, arrow.split(" --> ")[1])
        for line in lines
        if ": " in line
        for arrow, events in [line.strip().split(": ")]
        for event in events.split(", ")
    }
    assert drawn == {(state.value, event.value, target.value) for (state, event), target in TRANSITIONS.items()}
    assert [line for line in lines if line.endswith("--> [*]")] == [
        f"    {state} --> [*]" for state in ("succeeded", "failed", "expired", "cancelled")
    ]
