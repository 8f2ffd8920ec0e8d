"""A transactional id's life, version by version of the protocol."""

import pytest

from headrace.coordinator.batches import size_of
from headrace.coordinator.result import Overdue, Producer, Step
from headrace.coordinator.transaction_state import MAX_EPOCH, record_of
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.list_transactions import ListTransactionsRequest
from tests.support.transaction_driver import TIMEOUT_MS, V1, V2, TransactionDriver

A, B = ("orders", 0), ("sales", 3)


@pytest.fixture
def driver() -> TransactionDriver:
    return TransactionDriver()


class TestInit:
    def test_a_new_id_gets_a_producer_id_and_epoch_0(self, driver: TransactionDriver) -> None:
        producer = driver.begin()
        assert producer.epoch == 0
        assert driver.state() == "Empty"

    def test_the_next_producer_gets_the_next_epoch_and_fences_the_last(self, driver: TransactionDriver) -> None:
        first = driver.begin()
        second = driver.begin()
        assert second == Producer(first.producer_id, 1)
        assert driver.add(first, A) is ErrorCode.PRODUCER_FENCED
        assert driver.add(second, A) is ErrorCode.NONE

    @pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
    def test_a_time_out_beyond_the_limits_is_refused(self, driver: TransactionDriver, timeout_ms: int) -> None:
        assert driver.init(timeout_ms=timeout_ms).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert driver.written == []

    def test_an_ongoing_transaction_is_aborted_first(self, driver: TransactionDriver) -> None:
        first = driver.begin()
        driver.add(first, A)
        assert driver.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert driver.state() == "PrepareAbort"
        assert driver.init().error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        (marking,) = driver.write_markers()
        assert marking == ("t", Producer(first.producer_id, 1), False, frozenset({A}), 2)
        assert driver.begin() == Producer(first.producer_id, 2)

    def test_a_producer_that_recovers_gets_the_next_epoch_and_a_retry_the_same(self, driver: TransactionDriver) -> None:
        first = driver.begin()
        again = driver.init(producer=first)
        assert (again.producer_id, again.producer_epoch) == (first.producer_id, 1)
        assert driver.init(producer=first) == again
        assert len(driver.written) == 3

    @pytest.mark.parametrize("client_version", [0, 2])
    def test_a_producer_that_recovers_in_a_transaction_gets_the_next_epoch(
        self, driver: TransactionDriver, client_version: int
    ) -> None:
        producer = driver.begin()
        driver.add(producer, A, client_version=client_version)
        assert driver.init(producer=producer).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        driver.write_markers()
        recovered = driver.init(producer=producer)
        assert (recovered.error_code, recovered.producer_epoch) == (0, 1)

    def test_a_producer_that_was_fenced_cannot_recover(self, driver: TransactionDriver) -> None:
        first = driver.begin()
        driver.begin()
        driver.begin()
        assert driver.init(producer=first).error_code == ErrorCode.PRODUCER_FENCED
        assert driver.init(producer=Producer(4711, 0)).error_code == ErrorCode.PRODUCER_FENCED

    def test_when_epochs_run_out_a_new_producer_id_comes(self, driver: TransactionDriver) -> None:
        first = driver.begin()
        used_up = driver.transaction()._replace(epoch=MAX_EPOCH - 1)
        driver.shard.replay(record_of("t", used_up))
        second = driver.init(producer=Producer(first.producer_id, MAX_EPOCH - 1))
        assert second.producer_id != first.producer_id
        assert second.producer_epoch == 0
        assert driver.transaction().previous_producer_id == first.producer_id


class TestAdding:
    def test_the_first_partition_begins_the_transaction(self, driver: TransactionDriver) -> None:
        producer = driver.begin()
        driver.now_ms += 5
        assert driver.add(producer, A) is ErrorCode.NONE
        assert driver.state() == "Ongoing"
        assert driver.transaction().started_ms == driver.now_ms
        driver.now_ms += 5
        driver.add(producer, B)
        assert driver.transaction().partitions == {A, B}
        assert driver.transaction().started_ms == driver.now_ms - 5

    def test_what_is_there_already_is_not_written_again(self, driver: TransactionDriver) -> None:
        producer = driver.begin()
        driver.add(producer, A, B)
        written = len(driver.written)
        assert driver.add(producer, B) is ErrorCode.NONE
        assert len(driver.written) == written

    def test_who_may_not_add(self, driver: TransactionDriver) -> None:
        producer = driver.begin()
        assert driver.add(producer, A, transactional_id="other") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert driver.add(Producer(4711, 0), A) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert driver.add(Producer(producer.producer_id, 7), A) is ErrorCode.PRODUCER_FENCED
        driver.add(producer, A)
        driver.end(producer, commit=True)
        ended = Producer(producer.producer_id, 1)
        assert driver.add(ended, A) is ErrorCode.CONCURRENT_TRANSACTIONS

    def test_verification_tells_what_was_added(self, driver: TransactionDriver) -> None:
        producer = driver.begin()
        driver.add(producer, A)
        assert driver.shard.verify_partitions("t", producer, frozenset({A, B})) == {
            A: ErrorCode.NONE,
            B: ErrorCode.TRANSACTION_ABORTABLE,
        }
        assert driver.shard.verify_partitions("x", producer, frozenset({A})) == {
            A: ErrorCode.INVALID_PRODUCER_ID_MAPPING
        }

    def test_the_next_transaction_begins_without_the_partitions_of_the_last(self, driver: TransactionDriver) -> None:
        producer = driver.begin()
        driver.add(producer, A)
        driver.end(producer, commit=True)
        driver.write_markers()
        driver.add(Producer(producer.producer_id, 1), B)
        assert driver.transaction().partitions == {B}


class TestEndingInVersion2:
    def test_a_commit_is_prepared_marked_and_complete(self, driver: TransactionDriver) -> None:
        producer = driver.begin()
        driver.add(producer, A, B)
        ended = driver.end(producer, commit=True)
        assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, producer.producer_id, 1)
        assert driver.state() == "PrepareCommit"
        (marking,) = driver.write_markers()
        assert marking == ("t", Producer(producer.producer_id, 1), True, frozenset({A, B}), 2)
        assert driver.state() == "CompleteCommit"
        assert driver.transaction().partitions == frozenset()

    @pytest.mark.parametrize("commit", [True, False])
    def test_a_retry_gets_the_same_answer_and_writes_nothing(self, driver: TransactionDriver, commit: bool) -> None:
        producer = driver.begin()
        driver.add(producer, A)
        first = driver.end(producer, commit=commit)
        for wanted in (True, False):
            assert driver.end(producer, commit=wanted).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        driver.write_markers()
        written = len(driver.written)
        assert driver.end(producer, commit=commit) == first
        assert driver.end(producer, commit=not commit).error_code == ErrorCode.INVALID_TXN_STATE
        assert len(driver.written) == written

    def test_aborting_nothing_raises_the_epoch(self, driver: TransactionDriver) -> None:
        producer = driver.begin()
        ended = driver.end(producer, commit=False)
        assert (ended.error_code, ended.producer_epoch) == (0, 1)
        (marking,) = driver.write_markers()
        assert marking.partitions == frozenset()
        assert driver.state() == "CompleteAbort"

    def test_committing_nothing_is_refused(self, driver: TransactionDriver) -> None:
        producer = driver.begin()
        assert driver.end(producer, commit=True).error_code == ErrorCode.INVALID_TXN_STATE

    def test_who_may_not_end(self, driver: TransactionDriver) -> None:
        old = driver.begin()
        new = driver.begin()
        driver.add(new, A)
        assert driver.end(old, commit=True).error_code == ErrorCode.PRODUCER_FENCED
        assert driver.end(Producer(4711, 0), commit=True).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert driver.end(new, commit=True, transactional_id="x").error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert driver.state() == "Ongoing"

    def test_when_epochs_run_out_the_end_tells_a_new_producer_id(self, driver: TransactionDriver) -> None:
        first = driver.begin()
        driver.shard.replay(record_of("t", driver.transaction()._replace(epoch=MAX_EPOCH - 1)))
        last = Producer(first.producer_id, MAX_EPOCH - 1)
        driver.add(last, A)
        ended = driver.end(last, commit=True)
        assert ended.producer_epoch == 0
        assert ended.producer_id != first.producer_id
        (marking,) = driver.write_markers()
        assert marking.producer == Producer(first.producer_id, MAX_EPOCH)
        assert driver.transaction().producer_id == ended.producer_id
        assert driver.end(last, commit=True) == ended


class TestEndingInVersion1:
    def test_the_epoch_stays(self, driver: TransactionDriver) -> None:
        producer = driver.begin()
        driver.add(producer, A, client_version=0)
        assert driver.end(producer, commit=True, version=V1).error_code == 0
        (marking,) = driver.write_markers()
        assert marking == ("t", producer, True, frozenset({A}), 0)
        assert driver.add(producer, B, client_version=0) is ErrorCode.NONE

    def test_a_retry_is_told_by_the_state(self, driver: TransactionDriver) -> None:
        producer = driver.begin()
        driver.add(producer, A, client_version=0)
        driver.end(producer, commit=True, version=V1)
        assert driver.end(producer, commit=True, version=V1).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        driver.write_markers()
        assert driver.end(producer, commit=True, version=V1).error_code == 0
        assert driver.end(producer, commit=False, version=V1).error_code == ErrorCode.INVALID_TXN_STATE

    def test_ending_nothing_is_refused(self, driver: TransactionDriver) -> None:
        producer = driver.begin()
        for commit in (True, False):
            assert driver.end(producer, commit=commit, version=V1).error_code == ErrorCode.INVALID_TXN_STATE


class TestTime:
    @pytest.mark.parametrize("version", [V1, V2])
    def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(
        self, driver: TransactionDriver, version: int
    ) -> None:
        producer = driver.begin()
        driver.add(producer, A, client_version=2 if version == V2 else 0)
        driver.move(TIMEOUT_MS - 1)
        assert driver.state() == "Ongoing"
        driver.move(1)
        assert driver.state() == "PrepareAbort"
        (marking,) = driver.write_markers()
        assert marking.producer == Producer(producer.producer_id, 1)
        assert driver.state() == "CompleteAbort"
        late = driver.end(producer, commit=True, version=version)
        # In version 2 its epoch looks like that of a retry; that it wanted another end gives it away.
        assert late.error_code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE)
        assert driver.add(producer, A) is ErrorCode.PRODUCER_FENCED

    @pytest.mark.parametrize("client_version", [0, 2])
    def test_a_producer_whose_transaction_took_too_long_may_recover(
        self, driver: TransactionDriver, client_version: int
    ) -> None:
        producer = driver.begin()
        driver.add(producer, A, client_version=client_version)
        driver.move(TIMEOUT_MS)
        driver.write_markers()
        recovered = driver.init(producer=producer)
        assert (recovered.error_code, recovered.producer_epoch) == (0, 1)
        assert driver.begin().epoch == 2
        assert driver.init(producer=producer).error_code == ErrorCode.PRODUCER_FENCED

    def test_nobody_goes_on_with_the_epoch_that_is_kept_to_fence_with(self, driver: TransactionDriver) -> None:
        first = driver.begin()
        driver.shard.replay(record_of("t", driver.transaction()._replace(epoch=MAX_EPOCH - 1)))
        last = Producer(first.producer_id, MAX_EPOCH - 1)
        driver.add(last, A)
        driver.move(TIMEOUT_MS)
        (marking,) = driver.write_markers()
        assert marking.producer == Producer(first.producer_id, MAX_EPOCH)
        ended = driver.end(last, commit=False)
        assert (ended.error_code, ended.producer_epoch) == (0, 0)
        assert ended.producer_id != first.producer_id
        recovered = driver.init(producer=last)
        assert (recovered.error_code, recovered.producer_id, recovered.producer_epoch) == (0, ended.producer_id, 0)
        assert driver.begin() == Producer(ended.producer_id, 1)
        assert driver.init(producer=last).error_code == ErrorCode.PRODUCER_FENCED

    def test_without_a_producer_id_it_stays_open_and_asks_again(self, driver: TransactionDriver) -> None:
        first = driver.begin()
        driver.shard.replay(record_of("t", driver.transaction()._replace(epoch=MAX_EPOCH - 1)))
        driver.add(Producer(first.producer_id, MAX_EPOCH - 1), A)
        now_ms = driver.now_ms + TIMEOUT_MS
        asked = [step.overdue for step in driver.shard.tick(now_ms)]
        assert asked == [(Overdue("t", driver.now_ms),)]
        assert driver.state() == "Ongoing"
        assert list(driver.shard.tick(now_ms + 999)) == []
        assert [step.overdue for step in driver.shard.tick(now_ms + 1000)] == asked

    @pytest.mark.parametrize("version", [V1, V2])
    def test_one_that_ends_while_a_producer_id_is_on_its_way_is_left_alone(
        self, driver: TransactionDriver, version: int
    ) -> None:
        first = driver.begin()
        driver.shard.replay(record_of("t", driver.transaction()._replace(epoch=MAX_EPOCH - 1)))
        last = Producer(first.producer_id, MAX_EPOCH - 1)
        driver.add(last, A, client_version=2 if version == V2 else 0)
        now_ms = driver.now_ms + TIMEOUT_MS
        ((overdue,),) = [step.overdue for step in driver.shard.tick(now_ms)]
        driver.end(last, commit=True, version=version)
        assert driver.shard.end_overdue(overdue, fresh_id=7, now_ms=now_ms) == Step()
        driver.write_markers()
        driver.now_ms = now_ms
        if version == V1:  # and begins the next one, with the same epoch
            driver.add(last, A, client_version=0)
        assert driver.shard.end_overdue(overdue, fresh_id=7, now_ms=now_ms) == Step()
        assert driver.state() == ("Ongoing" if version == V1 else "CompleteCommit")

    def test_a_transaction_with_the_last_epoch_of_all_still_ends(self, driver: TransactionDriver) -> None:
        first = driver.begin()
        driver.shard.replay(record_of("t", driver.transaction()._replace(epoch=MAX_EPOCH)))
        driver.add(Producer(first.producer_id, MAX_EPOCH), A)
        driver.move(TIMEOUT_MS)
        driver.write_markers()
        assert driver.state() == "CompleteAbort"
        assert driver.transaction().epoch == 0

    @pytest.mark.parametrize("by_ms", [-3_600_000, 3_600_000])
    def test_its_time_is_what_passes_though_the_clock_is_set(self, driver: TransactionDriver, by_ms: int) -> None:
        driver.now_ms = 2 * 3_600_000
        producer = driver.begin()
        driver.add(producer, A)
        driver.now_ms += by_ms
        driver.shard.clock_set(by_ms)
        driver.add(producer, B)
        driver.move(TIMEOUT_MS - 1)
        assert driver.state() == "Ongoing"
        driver.move(1)
        assert driver.state() == "PrepareAbort"

    def test_one_that_ended_in_time_is_left_alone(self, driver: TransactionDriver) -> None:
        producer = driver.begin()
        driver.add(producer, A)
        driver.end(producer, commit=True)
        driver.move(10 * TIMEOUT_MS)
        assert driver.state() == "PrepareCommit"
        driver.write_markers()
        assert driver.state() == "CompleteCommit"

    def test_an_id_that_nobody_uses_is_forgotten(self, driver: TransactionDriver) -> None:
        driver.begin("old")
        driver.move(604_800_000 - 10)
        driver.begin("new")
        driver.move(3_600_000)
        assert set(driver.shard.transactions) == {"new"}
        driver.restart()
        assert set(driver.shard.transactions) == {"new"}

    def test_ids_that_are_long_are_forgotten_in_several_batches(self, driver: TransactionDriver) -> None:
        for number in range(60):
            driver.begin(f"{number}{'x' * 20_000}")
        driver.now_ms += 604_800_000
        sizes = []
        for step in driver.shard.tick(driver.now_ms):
            sizes.append(sum(map(size_of, step.records)))
            driver.carry_out(step)
        assert driver.shard.transactions == {}
        assert max(sizes) < 50_000


class TestRestart:
    @pytest.mark.parametrize("commit", [True, False])
    def test_what_was_prepared_is_marked_again(self, driver: TransactionDriver, commit: bool) -> None:
        producer = driver.begin()
        driver.add(producer, A)
        driver.end(producer, commit=commit)
        driver.restart()
        (marking,) = driver.write_markers()
        assert marking == ("t", Producer(producer.producer_id, 1), commit, frozenset({A}), 2)
        assert driver.state() == ("CompleteCommit" if commit else "CompleteAbort")

    def test_markers_of_an_end_that_is_complete_change_nothing(self, driver: TransactionDriver) -> None:
        producer = driver.begin()
        driver.add(producer, A)
        driver.end(producer, commit=True)
        (marking,) = driver.write_markers()
        written = len(driver.written)
        driver.carry_out(driver.shard.marked("t", marking.producer, driver.now_ms))
        assert len(driver.written) == written

    def test_an_open_transaction_still_ends_when_its_time_is_over(self, driver: TransactionDriver) -> None:
        driver.add(driver.begin(), A)
        driver.move(TIMEOUT_MS // 2)
        driver.restart()
        driver.move(TIMEOUT_MS // 2)
        assert driver.state() == "PrepareAbort"


class TestLooking:
    def test_a_description(self, driver: TransactionDriver) -> None:
        producer = driver.begin()
        driver.add(producer, B, A, ("orders", 2))
        described = driver.shard.describe("t")
        assert described.transaction_state == "Ongoing"
        assert [(topic.topic, list(topic.partitions)) for topic in described.topics] == [
            ("orders", [0, 2]),
            ("sales", [3]),
        ]
        assert driver.shard.describe("x").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    def test_filters(self, driver: TransactionDriver) -> None:
        one = driver.begin("one")
        driver.add(one, A, transactional_id="one")
        driver.move(1_000)
        two = driver.begin("two")
        driver.add(two, A, transactional_id="two")
        driver.begin("three")

        def listed(**filters: object) -> list[str]:
            request = ListTransactionsRequest()._replace(**filters)  # type: ignore[arg-type]
            rows = driver.shard.list_transactions(request, driver.now_ms)
            return [row.transactional_id for row in rows]

        assert listed() == ["one", "two", "three"]
        assert listed(state_filters=["Ongoing"]) == ["one", "two"]
        assert listed(producer_id_filters=[two.producer_id]) == ["two"]
        assert listed(state_filters=["Ongoing"], duration_filter=999) == ["one"]
