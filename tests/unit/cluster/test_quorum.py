"""The quorum of one: what must be saved before what, what is committed, and when a snapshot is taken."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cluster.control_records import (
    ControlRecord,
    VoterEndpoint,
    VoterNode,
    leader_change,
    membership,
    read_kraft_version,
    read_voters,
    snapshot_footer,
    snapshot_header,
)
from headrace.cluster.metadata_records import MetadataRecord
from headrace.cluster.quorum import (
    SNAPSHOT_RETRY_MS,
    Append,
    Commit,
    DropBefore,
    Effect,
    Event,
    Flushed,
    Lead,
    OnDisk,
    Propose,
    Quorum,
    Refused,
    SaveState,
    SnapshotFailed,
    SnapshotId,
    SnapshotPolicy,
    SnapshotTaken,
    Start,
    TakeSnapshot,
    Tick,
    Written,
)
from headrace.cluster.quorum_state import (
    NOBODY,
    QuorumState,
    QuorumStateError,
    format_quorum_state,
    parse_quorum_state,
)
from headrace.protocol.messages.metadata_records import NoOpRecord
from headrace.protocol.records import ControlType

ME = VoterNode(1, bytes.fromhex("9c8ebaf8dd314f18a50b139c809d0dc6"), (VoterEndpoint("CONTROLLER", "127.0.0.1", 44899),))
RECORDS: tuple[MetadataRecord, ...] = (NoOpRecord(), NoOpRecord())


def quorum(
    *, state: QuorumState | None = None, end: int = 0, last_epoch: int = 0, kraft_version: int = 1, **more: object
) -> Quorum:
    policy = more.pop("policy", SnapshotPolicy())
    assert isinstance(policy, SnapshotPolicy)
    on_disk = OnDisk(state or QuorumState(), end, last_epoch, **more)  # type: ignore[arg-type]
    return Quorum(ME, on_disk, kraft_version=kraft_version, policy=policy, now_ms=0)


def step(one: Quorum, event: Event, now_ms: int = 0) -> list[Effect]:
    return one.step(event, now_ms=now_ms)


def test_a_new_node_saves_its_epoch_then_says_that_it_leads_then_works() -> None:
    one = quorum()
    save, append, lead = step(one, Start())
    assert save == SaveState(QuorumState(leader_epoch=1, leader_id=1))
    assert isinstance(append, Append)
    assert (append.base_offset, append.epoch, append.records) == (0, 1, ())
    assert [record.type for record in append.control] == [
        ControlType.LEADER_CHANGE,
        ControlType.KRAFT_VERSION,
        ControlType.KRAFT_VOTERS,
    ]
    assert lead == Lead(epoch=1, next_offset=3)
    assert (one.epoch, one.leader_id, one.log_end_offset) == (1, 1, 3)


def test_the_control_records_have_the_bytes_that_kafka_wrote() -> None:
    assert leader_change(1, [1], [1]).value.hex() == "00000000000102000000010002000000010000"
    version, voters = membership(1, [ME])
    assert version.value.hex() == "0000000100"
    assert voters.value.hex() == (
        "000002000000019c8ebaf8dd314f18a50b139c809d0dc6020b434f4e54524f4c4c45520a3132372e302e302e31af630000000001000000"
    )
    assert read_kraft_version(version.value) == 1
    assert read_voters(voters.value) == (ME,)
    assert snapshot_header(0x01A1E2138D2A).value.hex() == "0000000001a1e2138d2a00"
    assert snapshot_footer() == ControlRecord(ControlType.SNAPSHOT_FOOTER, bytes(3))


def test_voters_are_written_once_and_again_when_the_address_changes() -> None:
    same = quorum(end=10, last_epoch=1, voters=(ME,))
    _, append, _ = step(same, Start())
    assert isinstance(append, Append)
    assert len(append.control) == 1
    moved = quorum(end=10, last_epoch=1, voters=(ME._replace(endpoints=()),))
    _, append, lead = step(moved, Start())
    assert isinstance(append, Append)
    assert len(append.control) == 3
    assert lead == Lead(2, 13)


def test_an_old_quorum_keeps_its_voters_out_of_the_log() -> None:
    _, append, _ = step(quorum(kraft_version=0), Start())
    assert isinstance(append, Append)
    assert [record.type for record in append.control] == [ControlType.LEADER_CHANGE]


@pytest.mark.parametrize(
    ("state", "last_epoch", "epoch"),
    [
        (QuorumState(), 0, 1),
        (QuorumState(leader_epoch=4, leader_id=1), 4, 5),
        (QuorumState(leader_epoch=4, voted_id=1), 2, 5),  # voted, and crashed before the first record
        (QuorumState(leader_epoch=2), 6, 7),  # the state was lost or is old: the log knows better
    ],
)
def test_every_start_begins_an_epoch_that_was_never_before(state: QuorumState, last_epoch: int, epoch: int) -> None:
    one = quorum(state=state, end=100, last_epoch=last_epoch)
    assert step(one, Start())[0] == SaveState(QuorumState(leader_epoch=epoch, leader_id=1))


def test_only_what_is_on_disk_is_committed() -> None:
    one = quorum()
    step(one, Start())
    assert step(one, Propose(RECORDS)) == [Append(3, 1, records=RECORDS)]
    assert step(one, Propose(RECORDS)) == [Append(5, 1, records=RECORDS)]
    assert one.high_watermark == -1
    assert step(one, Flushed(3)) == [Commit(3)]
    assert step(one, Flushed(7)) == [Commit(7)]
    assert step(one, Flushed(5)) == []
    assert step(one, Flushed(7)) == []
    assert one.high_watermark == 7


def test_what_an_earlier_epoch_left_is_committed_with_the_first_record_of_this_one() -> None:
    one = quorum(state=QuorumState(3, 1), end=50, last_epoch=3, voters=(ME,))
    step(one, Start())
    assert one.high_watermark == -1
    assert step(one, Flushed(51)) == [Commit(51)]


def test_a_snapshot_is_taken_when_enough_was_committed_and_one_at_a_time() -> None:
    one = quorum(policy=SnapshotPolicy(max_bytes=100, max_interval_ms=0))
    step(one, Start())
    assert step(one, Written(99)) == []
    assert step(one, Flushed(3)) == [Commit(3)]
    step(one, Propose(RECORDS))
    step(one, Written(1))
    assert step(one, Flushed(5)) == [Commit(5), TakeSnapshot(SnapshotId(5, 1))]
    step(one, Propose(RECORDS))
    step(one, Written(500))
    assert step(one, Flushed(7)) == [Commit(7)]  # the first is still being written
    assert step(one, SnapshotTaken(SnapshotId(5, 1))) == []
    assert one.newest_snapshot == SnapshotId(5, 1)
    assert step(one, Tick()) == [TakeSnapshot(SnapshotId(7, 1))]
    assert step(one, SnapshotTaken(SnapshotId(7, 1))) == [DropBefore(SnapshotId(5, 1))]


def test_a_snapshot_is_taken_when_the_last_one_is_old_and_there_is_news() -> None:
    one = quorum(policy=SnapshotPolicy(max_bytes=10**9, max_interval_ms=1000))
    step(one, Start())
    assert step(one, Tick(), now_ms=5000) == []  # nothing is committed yet
    assert step(one, Flushed(3), now_ms=500) == [Commit(3)]
    assert step(one, Tick(), now_ms=999) == []
    assert step(one, Tick(), now_ms=1000) == [TakeSnapshot(SnapshotId(3, 1))]
    step(one, SnapshotTaken(SnapshotId(3, 1)), now_ms=1100)
    assert step(one, Tick(), now_ms=9000) == []  # nothing is new
    step(one, Propose(RECORDS), now_ms=9000)
    assert step(one, Flushed(5), now_ms=9000) == [Commit(5), TakeSnapshot(SnapshotId(5, 1))]


def test_a_snapshot_is_taken_at_leisure_when_the_log_behind_the_last_one_has_become_as_large() -> None:
    policy = SnapshotPolicy(max_bytes=10**9, max_interval_ms=0, worth_bytes=100)
    one = quorum(end=50, last_epoch=3, voters=(ME,), policy=policy, bytes_since_snapshot=90)
    step(one, Start())
    step(one, Written(9))
    assert step(one, Flushed(51)) == [Commit(51)]
    assert step(one, Tick()) == []  # less than is worth it
    step(one, Propose(RECORDS))
    step(one, Written(1))
    assert step(one, Flushed(53)) == [Commit(53)]  # somebody may wait
    assert step(one, Tick()) == [TakeSnapshot(SnapshotId(53, 4))]
    step(one, SnapshotTaken(SnapshotId(53, 4), size_bytes=300))
    step(one, Propose(RECORDS))
    step(one, Written(299))
    step(one, Flushed(55))
    assert step(one, Tick()) == []
    step(one, Written(1))
    assert step(one, Tick()) == [TakeSnapshot(SnapshotId(55, 4))]


def test_a_large_snapshot_on_disk_is_not_written_again_for_a_few_records() -> None:
    policy = SnapshotPolicy(max_bytes=10**9, max_interval_ms=0, worth_bytes=100)
    newest = SnapshotId(50, 3)
    one = quorum(end=50, last_epoch=3, voters=(ME,), policy=policy, newest_snapshot=newest, snapshot_bytes=1000)
    step(one, Start())
    step(one, Written(999))
    step(one, Flushed(51))
    assert step(one, Tick()) == []
    step(one, Written(1))
    assert step(one, Tick()) == [TakeSnapshot(SnapshotId(51, 4))]


def test_a_snapshot_that_failed_is_taken_a_minute_later() -> None:
    one = quorum(policy=SnapshotPolicy(max_bytes=100, max_interval_ms=0))
    step(one, Start())
    step(one, Written(100))
    assert step(one, Flushed(3)) == [Commit(3), TakeSnapshot(SnapshotId(3, 1))]
    assert step(one, SnapshotFailed(SnapshotId(3, 1)), now_ms=1000) == []
    assert one.newest_snapshot is None
    step(one, Propose(RECORDS), now_ms=2000)
    assert step(one, Flushed(5), now_ms=2000) == [Commit(5)]
    assert step(one, Tick(), now_ms=1000 + SNAPSHOT_RETRY_MS - 1) == []
    assert step(one, Tick(), now_ms=1000 + SNAPSHOT_RETRY_MS) == [TakeSnapshot(SnapshotId(5, 1))]


def test_records_that_the_disk_did_not_take_leave_their_offsets_to_the_next() -> None:
    one = quorum()
    step(one, Start())
    (refused,) = step(one, Propose(RECORDS))
    assert step(one, Refused(len(RECORDS))) == []
    assert step(one, Propose(RECORDS[:1])) == [Append(3, 1, records=RECORDS[:1])]
    assert isinstance(refused, Append)
    assert refused.base_offset == 3
    assert step(one, Flushed(4)) == [Commit(4)]


def test_a_snapshot_on_disk_counts_after_a_restart() -> None:
    newest = SnapshotId(50, 3)
    policy = SnapshotPolicy(max_bytes=1, max_interval_ms=0)
    one = quorum(end=50, last_epoch=3, voters=(ME,), newest_snapshot=newest, policy=policy)
    step(one, Start())
    step(one, Written(10))
    assert step(one, Flushed(51)) == [Commit(51), TakeSnapshot(SnapshotId(51, 4))]
    assert step(one, SnapshotTaken(SnapshotId(51, 4))) == [DropBefore(newest)]


def test_a_quorum_of_more_than_one_is_refused_before_it_does_harm() -> None:
    with pytest.raises(ValueError, match=r"names the voters \[2, 1\]"):
        quorum(voters=(ME, ME._replace(voter_id=2)))


def test_records_are_refused_before_the_node_leads() -> None:
    with pytest.raises(AssertionError, match="does not lead"):
        step(quorum(), Propose(RECORDS))


commands = st.lists(st.sampled_from(["propose", "flush", "tick", "snapshot", "crash"]), max_size=60)


@settings(max_examples=200, deadline=None)
@given(history=commands, kept=st.integers(0, 3))
def test_through_any_crashes_epochs_grow_and_committed_records_stay(history: list[str], kept: int) -> None:
    """A disk in a few variables: what is saved, what is in the log, and how far it is synced."""
    saved, log, synced, committed, snapshot = QuorumState(), list[int](), 0, 0, None
    policy = SnapshotPolicy(max_bytes=200, max_interval_ms=0)
    one: Quorum | None = None
    led: list[int] = []
    pending: list[SnapshotId] = []
    for command in ["start", *history]:
        events: list[Event] = []
        if command == "crash" or one is None:
            del log[max(synced, len(log) - kept) :]  # some of what was not synced is lost
            assert len(log) >= committed
            one = quorum(
                state=saved,
                end=len(log),
                last_epoch=log[-1] if log else 0,
                voters=(ME,) if log else (),
                policy=policy,
                newest_snapshot=snapshot,
            )
            pending.clear()
            events = [Start()]
        elif command == "propose":
            events = [Propose(RECORDS), Written(70)]
        elif command == "flush":
            synced = len(log)
            events = [Flushed(synced)]
        elif command == "snapshot" and pending:
            snapshot = pending.pop()
            events = [SnapshotTaken(snapshot)]
        else:
            events = [Tick()]
        for event in events:
            for effect in step(one, event):
                if isinstance(effect, SaveState):
                    assert effect.state.leader_epoch > saved.leader_epoch
                    saved = effect.state
                elif isinstance(effect, Append):
                    assert effect.epoch == saved.leader_epoch  # never before it was saved
                    assert effect.base_offset == len(log)
                    log += [effect.epoch] * (len(effect.control) + len(effect.records))
                elif isinstance(effect, Lead):
                    assert effect.epoch not in led
                    led.append(effect.epoch)
                elif isinstance(effect, Commit):
                    assert committed <= effect.high_watermark <= synced
                    committed = effect.high_watermark
                elif isinstance(effect, TakeSnapshot):
                    assert effect.snapshot.end_offset <= committed
                    pending.append(effect.snapshot)
                else:
                    assert effect.snapshot.end_offset <= committed
    assert led == sorted(led)
    assert log == sorted(log)


def test_quorum_state_is_the_file_that_kafka_writes() -> None:
    text = '{"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    state = QuorumState(leader_epoch=2, leader_id=1, voted_id=NOBODY)
    assert format_quorum_state(state, kraft_version=1) == text
    assert parse_quorum_state(text) == state
    old = '{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,'
    old += '"currentVoters":[],"data_version":0}'
    assert format_quorum_state(state, kraft_version=0) == old
    assert parse_quorum_state(old) == state
    with_voters = old.replace("[]", '[{"voterId":1}]')
    assert parse_quorum_state(with_voters) == state


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"data_version":2}', "{" * 50, '{"leaderEpoch":"2"}'])
def test_a_quorum_state_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(QuorumStateError, match="quorum-state cannot be read"):
        parse_quorum_state(text)


@settings(max_examples=100, deadline=None)
@given(
    st.builds(
        QuorumState,
        st.integers(0, 2**31 - 1),
        st.integers(-1, 9),
        st.integers(-1, 9),
        st.binary(min_size=16, max_size=16),
    )
)
def test_any_quorum_state_comes_back(state: QuorumState) -> None:
    assert parse_quorum_state(format_quorum_state(state, kraft_version=1)) == state
