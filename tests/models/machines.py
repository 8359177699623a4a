"""Run a Hypothesis state machine on a database, with as many examples as the engine has time for."""

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.databases import FreshDatabases
from tests.examples import EXAMPLES_FACTOR


class DatabaseMachine(RuleBasedStateMachine):
    """A state machine that starts each example with a new database from `fresh`."""

    fresh: FreshDatabases


def run_machine(machine: type[DatabaseMachine], fresh: FreshDatabases, *, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        type(machine.__name__, (machine,), {"fresh": fresh}),
        settings=settings(
            max_examples=fresh.scale(examples) * EXAMPLES_FACTOR,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
