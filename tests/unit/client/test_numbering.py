"""Sequences of an idempotent producer, and what happens when nobody knows the next one."""

from headrace.client.numbering import MAX_EPOCH, Identity, Numbering
from headrace.client.pending_batch import PendingBatch

PLACE = ("t", 0)


def a_batch(records: int = 1, partition: int = 0) -> PendingBatch:
    batch = PendingBatch("t", partition, 0.0)
    batch.rows = [(None, b"v", 0, None)] * records
    batch.close()
    return batch


def numbered(numbering: Numbering, *batches: PendingBatch) -> list[tuple[int, int]]:
    for batch in batches:
        numbering.number(batch)
    return [(batch.epoch, batch.sequence) for batch in batches]


def a_numbering() -> Numbering:
    numbering = Numbering()
    numbering.take(Identity(9, 0))
    return numbering


def test_sequences_count_records_in_each_partition() -> None:
    numbering = a_numbering()
    batches = [a_batch(3), a_batch(2), a_batch(1, partition=1)]
    assert numbered(numbering, *batches) == [(0, 0), (0, 3), (0, 0)]


def test_a_retry_keeps_its_number() -> None:
    numbering = a_numbering()
    batch = a_batch()
    assert numbered(numbering, batch, batch, a_batch()) == [(0, 0), (0, 0), (0, 1)]


def test_a_lost_partition_waits_for_what_is_in_flight_and_begins_a_new_epoch() -> None:
    numbering = a_numbering()
    first, second, third = a_batch(2), a_batch(3), a_batch()
    numbered(numbering, first, second, third)
    second.is_in_flight = True
    numbering.settled(first, is_stored=True)
    numbering.lose(PLACE)
    assert not numbering.find(PLACE)
    second.is_in_flight = False
    assert numbering.find(PLACE)
    assert numbered(numbering, second, third, a_batch()) == [(1, 0), (1, 3), (1, 4)]


def test_other_partitions_take_the_new_epoch_over_when_nothing_of_theirs_is_under_way() -> None:
    numbering = a_numbering()
    other = a_batch(partition=1)
    numbered(numbering, other)
    numbering.lose(PLACE)
    assert numbering.find(PLACE)
    assert numbered(numbering, a_batch(partition=1)) == [(0, 1)], "the broker knows the old epoch here"
    for batch in list(numbering._unsettled[("t", 1)]):
        numbering.settled(batch, is_stored=True)
    assert numbered(numbering, a_batch(partition=1)) == [(1, 0)]


def test_without_epochs_left_a_new_identity_is_needed() -> None:
    numbering = Numbering()
    numbering.take(Identity(9, MAX_EPOCH))
    batch = a_batch()
    numbered(numbering, batch)
    numbering.lose(PLACE)
    assert not numbering.find(PLACE)
    assert numbering.identity is None
    numbering.take(Identity(10, 0))
    assert numbering.find(PLACE)
    numbered(numbering, batch)
    assert batch.producer_id == 10


def test_only_the_oldest_can_be_wrong_by_itself() -> None:
    numbering = a_numbering()
    first, second = a_batch(), a_batch()
    numbered(numbering, first, second)
    assert numbering.is_oldest(first)
    assert not numbering.is_oldest(second)
    numbering.settled(first, is_stored=True)
    assert numbering.is_oldest(second)


def test_sequences_begin_again_after_the_largest() -> None:
    numbering = a_numbering()
    numbering._next[PLACE] = (Identity(9, 0), 0x7FFF_FFFF)
    last, first = a_batch(), a_batch()
    assert numbered(numbering, last, first) == [(0, 0x7FFF_FFFF), (0, 0)]


def test_the_first_batch_of_an_epoch_goes_alone() -> None:
    numbering = a_numbering()
    first, second = a_batch(), a_batch()
    assert numbering.find(PLACE)
    numbered(numbering, first)
    first.is_in_flight = True
    assert not numbering.find(PLACE)
    first.is_in_flight = False
    numbering.settled(first, is_stored=True)
    numbered(numbering, second)
    second.is_in_flight = True
    assert numbering.find(PLACE), "the broker knows the producer now"


class TestWhatWasSentBehindABatchThatIsGivenUp:
    """Whether either of them is stored, nobody knows."""

    @staticmethod
    def given_up() -> tuple[Numbering, PendingBatch]:
        numbering = a_numbering()
        first, second, third = a_batch(), a_batch(), a_batch()
        numbered(numbering, first)
        numbering.settled(first, is_stored=True)
        numbered(numbering, second, third)
        third.is_in_flight = True
        numbering.settled(second, is_stored=False)
        numbering.give_up(PLACE)
        return numbering, third

    def test_keeps_its_number_and_goes_alone(self) -> None:
        numbering, behind = self.given_up()
        assert not numbering.find(PLACE)
        behind.is_in_flight = False
        assert numbering.find(PLACE)
        assert numbered(numbering, behind) == [(0, 2)]

    def test_tells_by_being_stored_what_the_broker_expects(self) -> None:
        numbering, behind = self.given_up()
        behind.is_in_flight = False
        numbering.settled(behind, is_stored=True)
        assert numbering.find(PLACE)
        assert numbered(numbering, a_batch(), a_batch()) == [(0, 3), (0, 4)]

    def test_is_numbered_again_if_it_is_refused_for_its_number(self) -> None:
        numbering, behind = self.given_up()
        behind.is_in_flight = False
        numbering.lose(PLACE)
        assert numbering.find(PLACE)
        assert numbered(numbering, behind) == [(1, 0)]

    def test_is_given_up_as_well(self) -> None:
        numbering, behind = self.given_up()
        behind.is_in_flight = False
        numbering.settled(behind, is_stored=False)
        numbering.give_up(PLACE)
        assert numbering.find(PLACE)
        assert numbered(numbering, a_batch()) == [(1, 0)]
