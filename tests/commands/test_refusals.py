from restante.commands.refusals import refusal_answer
from restante.commands.wire import SHAPE, CommandGone


def test_a_refusal_is_in_this_protocols_words() -> None:
    assert refusal_answer(CommandGone()) == SHAPE.error(CommandGone())
