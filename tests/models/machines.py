"""How a state machine is tried on a database: as many examples as the engine has time for, none of them hurried."""

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.databases import FreshDatabases
from tests.examples import TIMES


class Machine(RuleBasedStateMachine):
    """One that begins with a new database, from those it was placed upon."""

    fresh: FreshDatabases


def try_machine(machine: type[Machine], fresh: FreshDatabases, *, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        type(machine.__name__, (machine,), {"fresh": fresh}),
        settings=settings(
            max_examples=fresh.share(examples) * TIMES,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
