"""Any interleaving of commits, transactions, time and restarts: what counts is what the log says."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headrace.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.support.group_driver import GroupDriver
from tests.support.group_invariants import check_all

GROUPS = st.sampled_from(["g", "g", "h"])
INDEXES = st.sampled_from([0, 0, 1])
OFFSETS = st.integers(0, 1_000)
PRODUCERS = st.sampled_from([7, 8])


class OffsetsMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.driver = GroupDriver({"offsets.retention.minutes": "2", "offsets.retention.check.interval.ms": "10000"})
        self.topic_number = 0
        self.driver.make_topic("t", 2)

    @rule(group_id=GROUPS, index=INDEXES, offset=OFFSETS, retention_ms=st.sampled_from([-1, -1, -1, 30_000]))
    def commit(self, group_id: str, index: int, offset: int, retention_ms: int) -> None:
        request = OffsetCommitRequest(
            group_id,
            retention_time_ms=retention_ms,
            topics=[OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(index, offset, 3, "text")])],
        )
        response = self.driver.ask(
            lambda shard, ticket: shard.offset_commit(request, ticket=ticket, version=4, now_ms=self.driver.now_ms)
        )
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE

    @rule(producer_id=PRODUCERS, group_id=GROUPS, index=INDEXES, offset=OFFSETS)
    def commit_in_transaction(self, producer_id: int, group_id: str, index: int, offset: int) -> None:
        topics = [TxnOffsetCommitRequestTopic("t", [TxnOffsetCommitRequestPartition(index, offset)])]
        request = TxnOffsetCommitRequest("tx", group_id, producer_id, 0, topics=topics)
        response = self.driver.ask(
            lambda shard, ticket: shard.txn_offset_commit(request, ticket=ticket, version=5, now_ms=self.driver.now_ms)
        )
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE

    @rule(producer_id=PRODUCERS, committed=st.booleans())
    def end_transaction(self, producer_id: int, committed: bool) -> None:
        self.driver.end_transaction(producer_id, committed=committed)

    @rule(group_id=GROUPS, index=INDEXES, what=st.sampled_from(["nothing"] * 6 + ["forget", "delete", "topic", "time"]))
    def lose(self, group_id: str, index: int, what: str) -> None:
        """One rule for everything that makes offsets go, or there would never be many."""
        if what == "forget":
            self.forget(group_id, index)
        elif what == "delete":
            self.delete(group_id)
        elif what == "topic":
            self.delete_topic()
        elif what == "time":
            self.driver.move(180_000)

    def forget(self, group_id: str, index: int) -> None:
        request = OffsetDeleteRequest(group_id, [OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(index)])])
        self.driver.ask(lambda shard, ticket: shard.offset_delete(request, ticket=ticket))

    def delete(self, group_id: str) -> None:
        existed = group_id in self.driver.shard.groups
        code = self.driver.ask(lambda shard, ticket: shard.delete_group(group_id, ticket=ticket))
        assert code == (ErrorCode.NONE if existed else ErrorCode.GROUP_ID_NOT_FOUND)
        assert not [*self.driver.shard.offsets.places(group_id)]

    @rule(delay_ms=st.sampled_from([1, 9_000, 20_000]))
    def move(self, delay_ms: int) -> None:
        self.driver.move(delay_ms)

    def delete_topic(self) -> None:
        self.driver.delete_topic("t")
        assert not self.driver.shard.offsets, "the only topic is gone"
        self.topic_number += 1
        self.driver.make_topic("t", 2, self.topic_number)

    @rule()
    def restart(self) -> None:
        self.driver.restart()

    @invariant()
    def all_is_well(self) -> None:
        check_all(self.driver)


TestOffsets = pytest.mark.slow(OffsetsMachine.TestCase)
TestOffsets.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
