from typing import Any

import pytest

from restante.commands.telemetry.measurement_names import standard_measurements
from restante.core.errors import BadInput


@pytest.mark.parametrize(
    ("fields", "added"),
    [
        ({"temperature_max": 71.5}, {"temp_max": 71.5}),
        ({"temperature_avg": 64}, {"temp_avg": 64}),
        ({"hashrate_ghs": 102300}, {"hashrate": 102.3}),
        ({"power_consumption": 3250.0}, {"power": 3250.0}),
        ({"fan_speeds": [4200, 0, 4080]}, {"fan_rpm_min": 0, "fan_rpm_max": 4200}),
        ({"temp_max": 70, "hashrate": 100}, {}),
        ({"temp_max": 71.5, "temperature_max": 71.5}, {}),
        ({"hashrate": 0.3, "hashrate_ghs": 300.00000000000006}, {}),
        ({"temp_max": None, "temperature_max": 70}, {"temp_max": 70}),
    ],
)
def test_field_names_become_standard_names(fields: dict[str, Any], added: dict[str, float]) -> None:
    assert standard_measurements(fields) == added


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature_max", None),
        ("temperature_max", "71.5"),
        ("power_consumption", True),
        ("hashrate_ghs", 10**400),
        ("fan_speeds", []),
        ("fan_speeds", ["4200"]),
        ("fan_speeds", 4200),
    ],
)
def test_value_that_is_no_measurement_has_no_standard_name(name: str, value: Any) -> None:
    assert standard_measurements({name: value}) == {}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"temp_max": 70, "temperature_max": 71}, "temperature_max"),
        ({"hashrate": 102300, "hashrate_ghs": 102300}, "hashrate_ghs"),
        ({"power": 1, "power_consumption": 0}, "power_consumption"),
        ({"fan_rpm_min": 1, "fan_speeds": [2]}, "fan_speeds"),
    ],
)
def test_two_names_with_different_values_are_bad_input(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as raised:
        standard_measurements(fields)
    assert raised.value.field == field
