"""Transactions of a producer: begin, send, send offsets, commit or abort; and who has the transactional id.

States:

    NEW ──init──► READY ──begin──► OPEN ──commit──► COMMITTING ── all is delivered ──► ENDING ──► READY
                                    │ └───abort───► ENDING ──► READY      │
                                    └────────── a record fails ───────────┴─► BROKEN ──abort──► ENDING ──► READY
    any ─ another producer took the id over ─► FENCED, for ever

With brokers that speak transaction version 2 (KIP-890), a partition becomes part of the transaction by the first batch
that is sent to it, and each end brings a new epoch. Older ones are told about each partition first. In both cases what
was not sent when a transaction is aborted is never sent, and its records fail.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from headrace.client.accumulator import Place
from headrace.client.cluster import Cluster
from headrace.client.coordinators import CoordinatorKind
from headrace.client.errors import ClosedError, FencedError, KafkaError, TransactionAbortedError, WrongStateError
from headrace.client.gates import MISNUMBERED, Fate
from headrace.client.group_member import GroupMember
from headrace.client.numbering import Identity, Numbering
from headrace.client.pending_batch import PendingBatch
from headrace.client.prompt_answer import PromptAnswer
from headrace.client.sender import Sender
from headrace.client.topic_partition import TopicPartition
from headrace.client.transaction_requests import Ending, TransactionRequests
from headrace.client.transaction_state import HINTS, State
from headrace.client.transaction_wire import FENCING, adding_code, adding_request, offsets_by_topic
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headrace.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headrace.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

FEATURE: Final = "transaction.version"
_IMPLICIT_SINCE: Final = 2  # the level of the feature from which on the broker adds partitions itself
# The newest versions that older brokers, and brokers with the feature off, take as the older flow.
_OLD_PRODUCE: Final = 11
_OLD_END: Final = 4
_OLD_OFFSETS: Final = 4
_CLIENT_ADDS: Final = 3  # AddPartitionsToTxn from 4 on is for brokers
_LIVE: Final = (State.OPEN, State.COMMITTING)  # records are on their way


class TransactionGate:
    """The gate of a sender, and the calls of a user. All on the loop's thread."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int, max_block_seconds: float) -> None:
        self.transactional_id: str = transactional_id
        self.state = State.NEW
        self._wake: Callable[[], None] = lambda: None
        self._fail_unsent: Callable[[KafkaError], None] = lambda _: None
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._max_block = max_block_seconds
        self._requests = TransactionRequests(cluster, transactional_id, max_block_seconds)
        self._numbering = Numbering()
        self._error: KafkaError | None = None  # why the transaction is broken
        self._is_implicit = False
        self._wanted: set[Place] = set()  # to be added, for older brokers
        self._added: set[Place] = set()
        self._has_sent = False  # is there anything that the coordinator must end?
        self._adding: asyncio.Task[None] | None = None
        self._ending: Ending | None = None
        self._finishing: asyncio.Task[None] | None = None  # of an end that takes more than one question
        self._is_closed = False
        self._unheard: bool | None = None  # how a transaction ends that nobody waits for: committed, or not

    # For the sender

    def wired(self, wake: Callable[[], None], fail_unsent: Callable[[KafkaError], None]) -> None:
        self._wake = wake
        self._fail_unsent = fail_unsent

    @property
    def max_version(self) -> int | None:
        return None if self._is_implicit else _OLD_PRODUCE

    def is_open(self) -> bool:
        return self.state in _LIVE

    def admits(self, place: Place) -> bool:
        if self._is_implicit or place in self._added:
            return self._numbering.find(place)
        self._wanted.add(place)
        if self._adding is None:
            self._adding = asyncio.get_running_loop().create_task(self._add_partitions())
        return False

    def prepare(self, batch: PendingBatch) -> None:
        self._has_sent = True
        self._numbering.number(batch)

    def failure(self, batch: PendingBatch, error: KafkaError) -> Fate:
        if error.code in FENCING:
            return Fate(False, self._fence(error))
        if self.state is State.BROKEN:
            return Fate(False, error)  # the transaction is aborted: it makes no difference any more
        if error.code in MISNUMBERED:
            # Only what follows a batch that is still on its way may come right by itself.
            return Fate(not self._numbering.is_oldest(batch), error)
        return Fate(error.retriable, error)

    def settled(self, batch: PendingBatch, error: KafkaError | None) -> None:
        self._numbering.settled(batch, is_stored=error is None)
        if error is not None and self.state in _LIVE:
            self._break(error)

    def split(self, batch: PendingBatch, parts: Sequence[PendingBatch]) -> None:
        self._numbering.split(batch, parts)
        if not self.is_open():  # it was on its way when the transaction failed: nothing more of it is sent
            self._fail_unsent(self._error or _aborted())

    # For users

    @property
    def is_new(self) -> bool:
        """Whether `init` is to be called first."""
        return self.state is State.NEW

    @property
    def is_ending(self) -> bool:
        """Whether a transaction ends now."""
        return self.state is State.ENDING

    @property
    def may_abort(self) -> bool:
        """Whether a transaction is open, or broken, or nobody waits for its commit any more."""
        return self.state in _LIVE or self.state is State.BROKEN

    async def init(self) -> None:
        """Get the id to ourselves: older producers are fenced, their open transaction is aborted."""
        if self.state is not State.READY:  # then it is asked for again: a coordinator forgets what is not used
            self._check(State.NEW)
        self.state = State.NEW
        self._is_implicit = await self._speaks_implicit()
        await self._identify()
        self.state = State.READY

    async def _identify(self) -> None:
        identity = self._numbering.identity
        response: InitProducerIdResponse = await self._ask(
            InitProducerIdRequest(self.transactional_id, self._timeout_ms, *(identity or (-1, -1)))
        )
        self._numbering.take(Identity(response.producer_id, response.producer_epoch))

    async def _speaks_implicit(self) -> bool:
        node = await self._cluster.coordinator(
            CoordinatorKind.TRANSACTION, self.transactional_id, timeout=self._max_block
        )
        connection = await self._cluster.connection(node)
        return connection.versions.features.get(FEATURE, 0) >= _IMPLICIT_SINCE

    def begin(self) -> None:
        self._check(State.READY)
        self.state = State.OPEN
        self._error = None
        self._unheard = None
        self._has_sent = False
        self._added.clear()
        self._wanted.clear()

    def check_send(self) -> None:
        """Raises KafkaError unless records may be sent now."""
        if self.state is not State.OPEN:
            self._check(State.OPEN)

    async def send_offsets(self, offsets: Mapping[TopicPartition, Any], member: GroupMember) -> None:
        """Commit what was consumed if, and only if, the transaction is committed. `offsets` are the next to consume."""
        self._check(State.OPEN)
        assert self._numbering.identity is not None
        if not offsets:
            return
        if not self._is_implicit:
            request = AddOffsetsToTxnRequest(self.transactional_id, *self._numbering.identity, member.group_id)
            await self._ask_or_break(lambda: self._ask(request))
        self._has_sent = True
        commit = TxnOffsetCommitRequest(
            self.transactional_id,
            member.group_id,
            *self._numbering.identity,
            member.generation,
            member.member_id,
            member.instance_id,
            offsets_by_topic(offsets),
        )
        await self._ask_or_break(lambda: self._commit_offsets(member.group_id, commit))

    async def _commit_offsets(self, group_id: str, request: TxnOffsetCommitRequest) -> None:
        def code(response: Any) -> int:
            codes = (row.error_code for topic in response.topics for row in topic.partitions)
            return next((each for each in codes if each), 0)

        await self._ask(
            request,
            kind=CoordinatorKind.GROUP,
            key=group_id,
            max_version=None if self._is_implicit else _OLD_OFFSETS,
            code=code,
        )

    async def commit(self, sender: Sender) -> None:
        """Send what is left, and make all of it visible at once. Raises KafkaError; then abort."""
        if await self._is_ended_already(committed=True):
            return
        self._check(State.OPEN)
        self.state = State.COMMITTING  # what other threads send from now on would miss the flush
        try:
            while not sender.is_idle:
                await sender.flush()
        except asyncio.CancelledError:
            if self.state is State.COMMITTING:
                self.state = State.OPEN
            raise
        self._check(State.COMMITTING)
        await self._end(committed=True)

    async def abort(self, sender: Sender) -> None:
        """Nothing of it will be seen. What was not sent yet fails."""
        if await self._is_ended_already(committed=False):
            return
        if not self.may_abort:
            self._check(State.OPEN)
        self.state = State.BROKEN  # nothing more is sent
        self._wanted.clear()
        sender.fail_unsent(_aborted())
        await sender.flush()  # of what is in flight
        if self._adding is not None:
            await asyncio.wait([self._adding])  # else the coordinator could begin what we take to be ended
        self._check(State.BROKEN)
        await self._end(committed=False, is_renewed=self._error is not None and not self._is_implicit)

    async def _end(self, *, committed: bool, is_renewed: bool = False) -> None:
        """It goes on when whoever waits for it is interrupted: the coordinator may have been asked already."""
        self.state = State.ENDING
        assert self._numbering.identity is not None
        request = EndTxnRequest(self.transactional_id, *self._numbering.identity, committed)
        ending = self._ending = Ending(request if self._has_sent else None, is_renewed=is_renewed)
        told = partial(self._told, ending)
        if not self._has_sent or not self._requests.ask_now(request, told, max_version=self._max_end_version):
            self._finish_by_and_by(ending)
        try:
            await ending.wait()
        except asyncio.CancelledError:
            self._unheard = committed
            raise

    @property
    def _max_end_version(self) -> int | None:
        return None if self._is_implicit else _OLD_END

    def _told(self, ending: Ending, answer: PromptAnswer) -> None:
        """The answer to the first question: nearly always that all is well, and nothing more is to be done."""
        error = answer.exception()
        if error is not None and self._is_closed:
            ending.settle(error)
        elif error is not None or answer.result().error_code or ending.is_renewed:
            self._finish_by_and_by(ending, answer)
        else:
            self._take_end(answer.result())
            self._finished(ending)

    def _finish_by_and_by(self, ending: Ending, first: PromptAnswer | None = None) -> None:
        self._finishing = asyncio.get_running_loop().create_task(self._finish(ending, first))

    async def _finish(self, ending: Ending, first: PromptAnswer | None) -> None:
        """`first`: what came of the first question, if it was asked."""
        try:
            if ending.request is not None:
                self._take_end(await self._ask(ending.request, max_version=self._max_end_version, first=first))
            if ending.is_renewed:
                await self._identify()  # the broker may expect other sequences than we do
        except BaseException as error:
            if isinstance(error, KafkaError) and self.state is State.ENDING:
                self._break(error)
            ending.settle(ClosedError() if isinstance(error, asyncio.CancelledError) else error)
            if not isinstance(error, KafkaError):
                raise
        else:
            self._finished(ending)

    def _take_end(self, response: EndTxnResponse) -> None:
        if self._is_implicit and response.producer_id >= 0:
            self._numbering.take(Identity(response.producer_id, response.producer_epoch))

    def _finished(self, ending: Ending) -> None:
        self._fail_unsent(_late())
        self.state = State.READY
        ending.settle()

    async def ended(self) -> None:
        """Wait for an end that is under way, since whoever asked for it was interrupted."""
        if self.is_ending and self._ending is not None:
            with suppress(KafkaError):  # the state tells what came of it
                await self._ending.wait()

    async def _is_ended_already(self, *, committed: bool) -> bool:
        """Whether it came to this end, or does, since whoever asked for it was interrupted. Raises KafkaError."""
        if self._unheard is not committed or self.state not in (State.ENDING, State.READY) or self._ending is None:
            return False
        await self._ending.wait()
        self._unheard = None
        return True

    # Errors

    def _check(self, wanted: State) -> None:
        if self.state is wanted:
            return
        if self.state is State.FENCED:
            assert self._error is not None
            raise self._error
        if self.state is State.BROKEN:
            raise self._broken()
        raise WrongStateError(f"This does not fit now: {self.state.value}; {HINTS[self.state]}.")

    def _broken(self) -> KafkaError:
        return TransactionAbortedError(
            ErrorCode.TRANSACTION_ABORTABLE, f"The transaction cannot be committed and must be aborted: {self._error}"
        )

    def _break(self, error: KafkaError) -> None:
        self.state = State.BROKEN
        self._error = error
        self._fail_unsent(self._broken())

    def _fence(self, error: KafkaError) -> KafkaError:
        self.state = State.FENCED
        self._error = FencedError(
            ErrorCode.PRODUCER_FENCED,
            f"Another producer has begun with the transactional id {self.transactional_id!r}, or a transaction of this "
            f"one took longer than transaction.timeout.ms ({self._timeout_ms} ms). Close it; only a new one can go on.",
            tried=error.tried,
        )
        self._fail_unsent(self._error)
        return self._error

    async def _ask_or_break(self, ask: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        try:
            await ask()
        except asyncio.CancelledError:
            self._has_sent = True  # for all we know
            raise
        except KafkaError as error:
            if self.state in _LIVE:
                self._break(error)
            raise

    # Requests

    async def _add_partitions(self) -> None:
        try:
            while self._wanted:
                places, self._wanted = self._wanted, set()
                assert self._numbering.identity is not None
                request = adding_request(self.transactional_id, self._numbering.identity, places)
                await self._ask(request, max_version=_CLIENT_ADDS, code=adding_code)
                self._added |= places
                self._has_sent = True
        except KafkaError as error:
            if self.state in _LIVE:
                self._break(error)
            self._error = self._error or error
        finally:
            self._adding = None
            self._wake()

    async def _ask(self, request: Any, **how: Any) -> Any:
        """The coordinator's answer, as `TransactionRequests.ask` gives it. Raises KafkaError."""
        try:
            return await self._requests.ask(request, **how)
        except KafkaError as error:
            if error.code in FENCING:
                raise self._fence(error) from None
            raise

    async def close(self) -> None:
        self._is_closed = True
        for task in (self._adding, self._finishing):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])


def _aborted() -> KafkaError:
    return TransactionAbortedError(ErrorCode.TRANSACTION_ABORTABLE, "The transaction was aborted.")


def _late() -> KafkaError:
    """For a record that another thread was about to append when the state changed."""
    return WrongStateError("The record came while its transaction was ended, and is no part of it nor of the next one.")
