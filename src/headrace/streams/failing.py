"""Where a row may fail: in the decoding of its record, in a check, in a function of the user's, in the encoding of what
is written.

With dead letters such a row leaves the pipeline there, and the rest goes on; so each of these operators has dead
letters of its own, a sink like any other. Without, the first row that fails stops the pipeline.
"""

import traceback
from typing import Final

from headrace.streams.functions import Function
from headrace.streams.plan import (
    Branch,
    Check,
    Cogroup,
    Filter,
    FlatMap,
    Fold,
    Map,
    Node,
    Peek,
    Process,
    Reduce,
    Sink,
    Source,
)
from headrace.streams.serdes import OwnSerde
from headrace.streams.shapes import Kind

# What goes into a header of a dead letter. Some errors quote all of what they were given.
MAX_ERROR_LENGTH: Final = 1_000


def may_fail(node: Node) -> bool:
    """Topics of the app's own hold what it has written itself; what cannot be read there is no record's fault."""
    if isinstance(node, Source):
        return not node.internal and node.shape.kind is not Kind.GLOBAL_TABLE
    return judges_rows(node)


def judges_rows(node: Node) -> bool:
    """Whether single rows may fail in it, each alone: since it calls functions of the user's for them, or checks."""
    match node:
        case Check() | Map() | FlatMap() | Peek() | Process() | Reduce() | Fold() | Cogroup():
            return True
        case Filter():
            return isinstance(node.condition, Function)
        case Branch():
            return any(isinstance(condition, Function) for _, condition in node.choices)
        case Sink():
            return isinstance(node.key, OwnSerde) or isinstance(node.value, OwnSerde)
    return False


def error_text(error: BaseException) -> str:
    """Class and message, as Python prints them; also of an error that cannot tell its message."""
    return bounded("".join(traceback.format_exception_only(error)).strip())


def misfit_text(error: BaseException) -> str:
    """Of what a function gave, and Arrow could not make the schema's columns of."""
    return f"what it gave does not fit the schema: {error_text(error)}"


def bounded(text: str) -> str:
    return text if len(text) <= MAX_ERROR_LENGTH else text[: MAX_ERROR_LENGTH - 3] + "..."
