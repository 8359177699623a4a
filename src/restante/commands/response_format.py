"""The bodies of edge commands: a success is the object itself, an error `{"error": "<CODE>", "message": "…", …}`."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from restante.commands.errors import error_code
from restante.core.errors import BadInput, RestanteError, RetryLater
from restante.web.errors.challenges import challenge
from restante.web.response import ApiResponse, json_response
from restante.web.routes import JsonFormat

_encoder = msgspec.json.Encoder()


class Refusal(msgspec.Struct):
    """Every refusal; some say more, in fields of their own."""

    error: Annotated[str, msgspec.Meta(description="What went wrong, for programs.", examples=["ACCESS_DENIED"])]
    message: Annotated[str, msgspec.Meta(description="What went wrong, for people.")]
    field: Annotated[str, msgspec.Meta(description="The field at fault.")] | UnsetType = UNSET
    retry_after_sec: Annotated[int, msgspec.Meta(description="When to try again.")] | UnsetType = UNSET
    command_id: Annotated[str, msgspec.Meta(description="The other command.")] | UnsetType = UNSET
    command_status: Annotated[str, msgspec.Meta(description="The state of the command.")] | UnsetType = UNSET


class CommandsResponseFormat(JsonFormat):
    """The success and error bodies of protocol 2."""

    name = "Commands"
    error_type = Refusal

    def success(self, value: Any, status: int = 200) -> ApiResponse:
        return ApiResponse(204) if status == 204 else json_response(_encoder.encode(value), status)

    def error(self, error: RestanteError) -> ApiResponse:
        body: dict[str, Any] = {"error": error_code(error), "message": error.message}
        if isinstance(error, BadInput):
            body["field"] = error.field
        body.update(getattr(error, "fields", {}))
        headers = [*challenge(error)]
        if isinstance(error, RetryLater):
            body["retry_after_sec"] = error.retry_after_seconds
            headers.append((b"retry-after", b"%d" % error.retry_after_seconds))
        return json_response(_encoder.encode(body), error.status, *headers)


RESPONSE_FORMAT = CommandsResponseFormat()
