"""A poll's body as clients write it (`OBEventPolling1`), and as it is read."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.core.acknowledgement import Fault, Verdicts, events_wanted, verdicts_of

JTI_CHARACTERS_MAX = 128
ERR_CHARACTERS_MAX = 40
DESCRIPTION_CHARACTERS_MAX = 256

# For texts that are kept or looked for: not every database takes a NUL.
_NO_NUL = r"^[^\x00]*\Z"

MaxEvents = Annotated[int, Meta(ge=0, le=2**63 - 1, description="How many events at most; 0: none, acknowledge only.")]
Jti = Annotated[str, Meta(min_length=1, max_length=JTI_CHARACTERS_MAX, pattern=_NO_NUL)]
Err = Annotated[
    str, Meta(min_length=1, max_length=ERR_CHARACTERS_MAX, pattern=_NO_NUL, description="What is wrong, in a word.")
]
Description = Annotated[
    str, Meta(min_length=1, max_length=DESCRIPTION_CHARACTERS_MAX, pattern=_NO_NUL, description="The same, for people.")
]


class SetError(msgspec.Struct):
    """Why an event could not be used."""

    err: Err
    description: Description


class PollBody(msgspec.Struct, rename="camel"):
    """Members that are not known pass, where so configured."""

    max_events: MaxEvents | UnsetType = UNSET
    return_immediately: Annotated[bool, Meta(description="Answer at once, also if there is nothing.")] = False
    ack: Annotated[list[Jti], Meta(description="The ids of events that were received and understood.")] = []
    set_errs: Annotated[
        Mapping[Jti, SetError], Meta(description="By their ids, the events that could not be used.")
    ] = {}


class StrictSetError(SetError, forbid_unknown_fields=True):
    pass


class StrictPollBody(PollBody, rename="camel", forbid_unknown_fields=True):
    set_errs: Annotated[
        Mapping[Jti, StrictSetError], Meta(description="By their ids, the events that could not be used.")
    ] = {}


class ReadPoll(NamedTuple):
    """What a poll says and wants."""

    limit: int
    waits: bool
    verdicts: Verdicts


def read_poll(body: PollBody, events_max: int) -> ReadPoll:
    """The poll, with no more events wanted than `events_max`. One that wants none does not wait for any."""
    faults = {jti: Fault(each.err, each.description) for jti, each in body.set_errs.items()}
    verdicts = verdicts_of(body.ack, faults)
    limit = events_wanted(None if body.max_events is UNSET else body.max_events, events_max)
    return ReadPoll(limit, limit > 0 and not body.return_immediately, verdicts)
