"""What a coordinator decides: records to write, and who gets which answer once they are committed.

Theory. A coordinator is cut into shards, one for each partition of its topic, and a shard is a state machine that only
computes. Two kinds of state live in it:

    hard state   what the records say. `replay` alone changes it, for a record just written and for one read at a start.
    soft state   who waits for what, and until when. Decisions change it; it is gone when the shard moves.

A decision takes a request, the ticket under which its answer is awaited, and the time. It returns a `Step`. The shell
writes the records of a step as one batch, replays them at once, and hands out the answers when they are committed. So
the next decision sees what this one wrote, and nobody hears of a write that may still be lost. An answer may belong to
an earlier request: a member that joined waits for the others.

If a write fails, the shell drops the shard, tells everybody who waits to ask again, and replays a new one from the log:
no decision needs to know how to take itself back.
"""

from typing import Any, Final, NamedTuple, TypeAlias

from headrace.protocol.internal_records import CoordinatorRecord

Ticket: TypeAlias = int  # names a request that waits for its answer; given by the shell, never used again
NO_PRODUCER_ID: Final = -1


class Answer(NamedTuple):
    """The response to the request with this ticket."""

    ticket: Ticket
    response: Any


class Producer(NamedTuple):
    """In whose transaction records are written."""

    producer_id: int
    epoch: int


class Marking(NamedTuple):
    """How a transaction ends: a marker in each partition that it wrote to. Repeated until all are there."""

    transactional_id: str
    producer: Producer
    committed: bool
    partitions: frozenset[tuple[str, int]]
    transaction_version: int = 0  # from 2 on, `producer` has an epoch that no record of the transaction has


class Overdue(NamedTuple):
    """A transaction whose time is over and whose producer has no epoch left: its end needs a new producer id."""

    transactional_id: str
    started_ms: int


class Step(NamedTuple):
    """What one decision leads to. Records are written as one batch, which is there as a whole or not at all."""

    records: tuple[CoordinatorRecord, ...] = ()
    answers: tuple[Answer, ...] = ()
    producer: Producer | None = None  # the records are part of its transaction
    markings: tuple[Marking, ...] = ()  # to be written once the records are committed
    notices: tuple[str, ...] = ()  # for the broker's log: who caused a rebalance, and why
    overdue: tuple[Overdue, ...] = ()  # to come back to, with an id for each


def answer(ticket: Ticket, response: Any) -> Step:
    """The step that only answers the one who asked."""
    return Step(answers=(Answer(ticket, response),))


class Client(NamedTuple):
    """Who sent a request, as groups show it."""

    client_id: str
    host: str
