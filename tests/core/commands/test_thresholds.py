import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.commands.thresholds import OPERATORS, Threshold, Thresholds, is_reported

PLAIN = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq}

numbers = st.one_of(st.integers(-5, 5), st.floats(-5, 5), st.integers(-(2**70), 2**70))
metrics = st.sampled_from(["temp_max", "hashrate", "power"])
thresholds = st.builds(Threshold, metrics, st.sampled_from(OPERATORS), numbers.map(float))
values = st.one_of(numbers, st.booleans(), st.none(), st.text(max_size=3))


@given(st.lists(thresholds, max_size=12), st.dictionaries(metrics, values))
def test_result_equals_a_comparison_one_by_one(all_thresholds: list[Threshold], record: dict[str, Any]) -> None:
    tagged = list(enumerate(all_thresholds))
    crossed = Thresholds((threshold, tag) for tag, threshold in tagged).crossed_by(record)
    assert sorted(crossed) == [
        tag
        for tag, each in tagged
        if type(record.get(each.metric)) in (int, float) and PLAIN[each.operator](record[each.metric], each.bound)
    ]


@pytest.mark.parametrize(
    ("sign", "crossing"),
    [(">", [81]), (">=", [80, 81]), ("<", [79]), ("<=", [79, 80]), ("==", [80])],
)
def test_operator_at_its_bound(sign: str, crossing: list[int]) -> None:
    one = Thresholds([(Threshold("temp_max", sign, 80.0), "hot")])
    assert [value for value in (79, 80, 81) if one.crossed_by({"temp_max": value})] == crossing


@pytest.mark.parametrize("value", [True, False, None, "99", [99], {"max": 99}])
def test_value_that_is_not_a_number_crosses_nothing(value: Any) -> None:
    record = {"temp_max": value}
    assert not is_reported(record, "temp_max")
    assert Thresholds([(Threshold("temp_max", ">", -1.0), "hot")]).crossed_by(record) == []


def test_missing_metric_is_not_reported() -> None:
    assert not is_reported({}, "temp_max")
    assert is_reported({"temp_max": 0}, "temp_max")
    assert is_reported({"temp_max": 0.5}, "temp_max")
