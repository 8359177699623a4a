"""What went wrong in a write that no request handler waits for, in this protocol's words."""

from functools import partial

from restante.commands.wire import SHAPE
from restante.web.refusals import refusal_in

refusal_answer = partial(refusal_in, SHAPE)
