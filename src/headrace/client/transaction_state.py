"""The states of a producer with a transactional id, as `transactions.py` draws them, in words for its user."""

from enum import Enum
from typing import Final


class State(Enum):
    NEW = "init_transactions() has not been called"
    READY = "no transaction is open"
    OPEN = "a transaction is open"
    COMMITTING = "the transaction is being committed"
    BROKEN = "the transaction failed, and waits for abort()"
    ENDING = "a transaction ends"
    FENCED = "another producer has taken the transactional id over"


# What to do for a call that does not fit the state.
HINTS: Final = {
    State.NEW: "call init_transactions() first",
    State.READY: "call begin_transaction() first, or use `with producer.transaction():`",
    State.OPEN: "commit or abort it first",
    State.COMMITTING: "wait for its end; what is to be part of it must be sent before commit_transaction()",
    State.ENDING: "wait for its end",
}
