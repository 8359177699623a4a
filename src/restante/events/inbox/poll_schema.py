"""The body of a poll as clients send it (`OBEventPolling1`), and as it is parsed."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta

from restante.core.decoding import INT64_MAX, whole_number
from restante.core.events.poll_acks import Fault, Verdicts, event_limit, verdicts_of

JTI_CHARACTERS_MAX = 128
ERR_CHARACTERS_MAX = 40
DESCRIPTION_CHARACTERS_MAX = 256

# For texts that are stored or searched: not every database accepts a NUL.
_NO_NUL = r"^[^\x00]*\Z"

# Any number is decoded, and `parse_poll` checks it: 10.0 is an integer in JSON Schema, but not for the decoder.
MaxEvents = Annotated[
    Any,
    Meta(
        description="Maximum number of events; 0: none, acknowledge only.",
        extra_json_schema={"type": "integer", "minimum": 0, "maximum": INT64_MAX},
    ),
]
Jti = Annotated[str, Meta(min_length=1, max_length=JTI_CHARACTERS_MAX, pattern=_NO_NUL)]
Err = Annotated[
    str, Meta(min_length=1, max_length=ERR_CHARACTERS_MAX, pattern=_NO_NUL, description="A short error code.")
]
Description = Annotated[
    str, Meta(min_length=1, max_length=DESCRIPTION_CHARACTERS_MAX, pattern=_NO_NUL, description="The error in words.")
]


class SetError(msgspec.Struct):
    """Why an event could not be used."""

    err: Err
    description: Description


class PollBody(msgspec.Struct, rename="camel"):
    """Unknown members are ignored, if so configured."""

    max_events: MaxEvents = UNSET
    return_immediately: Annotated[bool, Meta(description="Respond at once, even if there are no events.")] = False
    ack: Annotated[list[Jti], Meta(description="The ids of events that were received and understood.")] = []
    set_errs: Annotated[Mapping[Jti, SetError], Meta(description="The events that could not be used, by id.")] = {}


class StrictPollBody(PollBody, rename="camel", forbid_unknown_fields=True):
    """Unknown members are refused, except within an error of `setErrs`, where Open Banking allows them."""


class ParsedPoll(NamedTuple):
    """What a poll acknowledges, how many events it requests, and whether it waits."""

    limit: int
    waits: bool
    verdicts: Verdicts


def parse_poll(body: PollBody, events_max: int) -> ParsedPoll:
    """Parse a poll, or raise BadInput; its limit is at most `events_max`. A poll with limit 0 does not wait."""
    faults = {jti: Fault(each.err, each.description) for jti, each in body.set_errs.items()}
    verdicts = verdicts_of(body.ack, faults)
    max_events = None if body.max_events is UNSET else whole_number(body.max_events, "maxEvents")
    limit = event_limit(max_events, events_max)
    return ParsedPoll(limit, limit > 0 and not body.return_immediately, verdicts)
