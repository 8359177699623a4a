"""The waves of a rollout: which share of the items each of them gets.

    {"percent": 10}              so many percent of all items have it after this wave
    {"count": 50}                50 more items
    {"group": "pilot"}           the devices of a group
    {"filter": {"zone_id": 3}}   the items that match this filter, too

Each wave takes items that no earlier wave took, in the order of their ids. Decides how many items a wave has; reads
nothing.
"""

import math
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.core.errors import BadInput

WAVES_MAX = 50
COUNT_MAX = 10_000_000


class Wave(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One of these fields says which items are in the wave."""

    percent: Annotated[float, Meta(gt=0, le=100)] | None = None
    count: Annotated[int, Meta(ge=1, le=COUNT_MAX)] | None = None
    group: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    filter: dict[str, Any] | None = None

    @property
    def own_filter(self) -> dict[str, Any]:
        """What the wave adds to the filter of the rollout."""
        return {"group": self.group} if self.group is not None else self.filter or {}


DEFAULT_WAVES = (Wave(percent=1), Wave(percent=10), Wave(percent=50), Wave(percent=100))


def check_waves(waves: list[Wave]) -> None:
    highest = 0.0
    for number, wave in enumerate(waves):
        given = [each for each in (wave.percent, wave.count, wave.group, wave.filter) if each is not None]
        if len(given) != 1:
            raise BadInput(f"waves[{number}]", "exactly one of percent, count, group and filter")
        if wave.percent is not None:
            if wave.percent <= highest:
                raise BadInput(f"waves[{number}].percent", f"more than the {highest:g} percent of an earlier wave")
            highest = wave.percent


def filter_of(wave: Wave, filters: msgspec.Struct, field: str) -> Any:
    """The filter of the wave: that of the rollout, and what the wave adds."""
    defaults = type(filters)()
    given = [name for name in filters.__struct_fields__ if getattr(filters, name) != getattr(defaults, name)]
    own = {name: msgspec.to_builtins(getattr(filters, name)) for name in given}
    for name in wave.own_filter:
        if name in own:
            raise BadInput(f"{field}.{name}", "a field that the filter of the rollout does not have")
    try:
        return msgspec.convert({**own, **wave.own_filter}, type(filters))
    except msgspec.ValidationError as error:
        raise BadInput(field, str(error)) from None


def items_max(wave: Wave, total: int, taken: int) -> int | None:
    """How many items the wave has at most; None: all that match."""
    if wave.count is not None:
        return wave.count
    if wave.percent is None or wave.percent == 100:
        return None
    # Rounded up, so that one percent of ten devices is one device.
    return max(0, math.ceil(total * wave.percent / 100) - taken)
