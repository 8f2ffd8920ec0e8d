"""A broker that plays a story about transactions, beside a shard in this process.

What both answer is compared line by line; what they have written, in the end. A broker writes markers by itself, so
what is asked meanwhile is left out, and no story can be told in which something changes meanwhile, or in which time
passes. Producer ids are numbered in the order of their appearance, and times are left out.
"""

import re
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Final

from headrace.coordinator.result import Answer, Producer, Step
from headrace.coordinator.transaction_state import by_topic
from headrace.protocol.apis import TRANSACTION_RECORDS
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.internal_records import decode_coordinator_record
from headrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headrace.protocol.messages.end_txn import EndTxnRequest
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest
from headrace.protocol.records import iter_batches, read_records
from tests.support.scenario import Story, happen, is_action
from tests.support.scenario_texts import record_text
from tests.support.scenario_transactions import TRANSACTION_VERBS, TransactionStage
from tests.support.story_broker import PATIENCE_SECONDS
from tests.support.transaction_driver import TIMEOUT_MS, V2
from tests.support.wire_client import WireClient

LOG: Final = "__transaction_state"  # with one partition
_BEYOND: Final = re.compile(r"(clock|restart|list)\b|.* (has .*epoch=|adds-offsets )|marked \S+ .")
_STARTING: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
_TIMES: Final = re.compile(r",? (at|since) \+?-?\d+ ms")
_IDS: Final = re.compile(r"\b(?P<id>\d+)(?=/\d)|(?<=after )(?P<old>\d+)")


def can_be_told(story: Story) -> bool:
    stage = TransactionStage()
    for line in filter(is_action, story.lines):
        is_unseen = _is_unseen(line, stage)
        followed = happen(line, stage, TRANSACTION_VERBS)
        if _BEYOND.match(line) or (is_unseen and any(each.startswith("writes ") for each in followed)):
            return False
    return True


def _is_unseen(line: str, stage: TransactionStage) -> bool:
    """Does it happen while markers are to be written? Nobody knows whether a broker has them already."""
    return bool(stage.driver.ordered) and not line.startswith("marked ")


def fight(story: Story, client: WireClient) -> None:
    """Raises AssertionError at the first line that is answered otherwise, or if something else was written."""
    ours, theirs = TransactionStage(), TransactionStage()
    broker = BrokerDriver(client)
    theirs.driver = broker  # type: ignore[assignment]
    our_names, their_names = _Names(), _Names()
    for line in filter(is_action, story.lines):
        is_unseen, translated = _is_unseen(line, ours), _translated(line, ours, theirs)
        expected = [our_names.plain(each) for each in happen(line, ours, TRANSACTION_VERBS) if each.startswith("-> ")]
        if line.startswith("marked "):
            broker.await_markers(line.split()[1])
        elif not is_unseen:
            told = [their_names.plain(each) for each in happen(translated, theirs, TRANSACTION_VERBS)]
            assert told == expected, f"{line}: Kafka tells {told}, Headrace {expected}"
    written = [our_names.plain(record_text(record)) for step in ours.driver.steps for record in step.records]
    told = list(map(their_names.plain, broker.written()))
    # Where a story ends with markers that are still to be written, a broker may have written them, and the end, by now.
    assert (told[: len(written)] if ours.driver.ordered else told) == written


def _translated(line: str, ours: TransactionStage, theirs: TransactionStage) -> str:
    """Ids that a story knows are those which our coordinator gave."""
    ids = {
        str(each.producer_id): str(theirs.identities[key].producer_id)
        for key, each in ours.identities.items()
        if key in theirs.identities
    }
    return re.sub(r"(?<= id=)\d+", lambda found: ids.get(found[0], found[0]), line)


class _Names:
    """Of producer ids, in the order of their appearance."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def plain(self, line: str) -> str:
        """Without times."""
        return _IDS.sub(lambda found: self._names.setdefault(found[0], f"p{len(self._names)}"), _TIMES.sub("", line))


class BrokerDriver:
    """Does for a stage what a TransactionDriver does, at a broker."""

    def __init__(self, client: WireClient) -> None:
        self._client = client
        self._end = f"-{uuid.uuid4().hex[:8]}"  # of all transactional ids of this story
        self.steps: list[Step] = []
        self.shard = self  # which is asked, too

    def _answer(self, response: Any) -> Any:
        self.steps.append(Step(answers=(Answer(0, response),)))
        return response

    def init(self, transactional_id: str, producer: Producer, *, timeout_ms: int = TIMEOUT_MS) -> Any:
        name = transactional_id + self._end
        request = InitProducerIdRequest(name, timeout_ms, *producer)
        looked_for = FindCoordinatorRequest(key_type=1, coordinator_keys=[name])
        self._until(lambda: self._client.ask("FindCoordinator", 4, looked_for).coordinators[0], _is_there)
        return self._answer(self._until(lambda: self._client.ask("InitProducerId", 5, request), _is_there))

    def add(
        self, producer: Producer, *places: tuple[str, int], transactional_id: str, client_version: int
    ) -> ErrorCode:
        topics = _topics(places)
        if client_version:
            codes = self._ask_as_broker(transactional_id, producer, topics, verify_only=False)
        else:
            request = AddPartitionsToTxnRequest((), transactional_id + self._end, *producer, topics)
            codes = _codes(self._client.ask("AddPartitionsToTxn", 3, request).results_by_topic_v3_and_below)
        (code,) = set(codes.values())
        return self._answer(code)  # type: ignore[no-any-return]

    def verify_partitions(
        self, transactional_id: str, producer: Producer, places: frozenset[tuple[str, int]]
    ) -> dict[tuple[str, int], ErrorCode]:
        return self._ask_as_broker(transactional_id, producer, _topics(places), verify_only=True)

    def _ask_as_broker(
        self, transactional_id: str, producer: Producer, topics: list[AddPartitionsToTxnTopic], *, verify_only: bool
    ) -> dict[tuple[str, int], ErrorCode]:
        row = AddPartitionsToTxnTransaction(transactional_id + self._end, *producer, verify_only, topics)
        response = self._client.ask("AddPartitionsToTxn", 5, AddPartitionsToTxnRequest([row]))
        return _codes(response.results_by_transaction[0].topic_results)

    def end(self, producer: Producer, *, commit: bool, version: int = V2, transactional_id: str) -> Any:
        request = EndTxnRequest(transactional_id + self._end, *producer, commit)
        return self._answer(self._client.ask("EndTxn", version, request))

    def await_markers(self, transactional_id: str) -> None:
        self._until(lambda: self.describe(transactional_id), lambda row: not row.transaction_state.startswith("Prep"))

    def describe(self, transactional_id: str) -> Any:
        request = DescribeTransactionsRequest([transactional_id + self._end])
        return self._client.ask("DescribeTransactions", 0, request).transaction_states[0]

    def _until(self, ask: Callable[[], Any], is_done: Callable[[Any], bool]) -> Any:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_done(response := ask()):
            assert time.monotonic() < deadline, response
            time.sleep(0.02)  # until the broker has done it, with a deadline
        return response

    def written(self) -> list[str]:
        """All that is in the log about this story's ids."""
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 24)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 24, topics=[FetchTopic(LOG, partitions=[partition])]
        )
        data = bytes(self._client.ask("Fetch", 12, request).responses[0].partitions[0].records or b"")
        records = [
            decode_coordinator_record(TRANSACTION_RECORDS, record.key, record.value)
            for position, _ in iter_batches(data)
            for record in read_records(data, position)
        ]
        texts = [record_text(each) for each in records if each.key.transactional_id.endswith(self._end)]
        return [text.replace(self._end, "") for text in texts]


def _topics(places: Iterable[tuple[str, int]]) -> list[AddPartitionsToTxnTopic]:
    return [AddPartitionsToTxnTopic(topic, indexes) for topic, indexes in by_topic(places).items()]


def _is_there(response: Any) -> bool:
    return response.error_code not in _STARTING


def _codes(topics: Any) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.name, row.partition_index): ErrorCode(row.partition_error_code)
        for topic in topics
        for row in topic.results_by_partition
    }
