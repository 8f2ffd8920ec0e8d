"""What members may send without harm to others: long names, much metadata, many members."""

import tracemalloc
from typing import Any

import pytest

from headrace.coordinator.classic_group import ClassicGroup, ClassicState
from headrace.coordinator.classic_join import MAX_NAME_BYTES, MAX_PENDING_JOINS
from headrace.coordinator.draft import MAX_NOTICE_CHARACTERS
from headrace.coordinator.group_records import offset_commit
from headrace.coordinator.result import Client
from headrace.protocol.apis import GROUP_RECORDS
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.internal_records import decode_coordinator_record, encode_coordinator_record
from headrace.protocol.messages.group_records import OffsetCommitValue
from headrace.protocol.messages.heartbeat import HeartbeatRequest
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.consumer_protocol import subscription_bytes
from tests.support.group_driver import NO_DELAY, GroupDriver

SUBSCRIPTION = subscription_bytes(["t"])
CLIENT = Client("client", "/127.0.0.1")
TAKES_AT_ONCE = 3  # the last version in which a member need not come twice
STATIC = 5


def request(**changes: Any) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", changes.pop("metadata", SUBSCRIPTION))]
    return JoinGroupRequest("g", 10_000, 60_000, "", None, "consumer", protocols)._replace(**changes)


def send_join(
    driver: GroupDriver, asked: JoinGroupRequest, client: Client = CLIENT, version: int = TAKES_AT_ONCE
) -> int:
    return driver.send(
        lambda shard, ticket: shard.join_group(
            asked, ticket=ticket, client=client, version=version, now_ms=driver.now_ms
        )
    )


def join(driver: GroupDriver, asked: JoinGroupRequest, client: Client = CLIENT, version: int = TAKES_AT_ONCE) -> Any:
    return driver.answers.pop(send_join(driver, asked, client, version))


def sync(driver: GroupDriver, member: JoinGroupResponse, **assignments: bytes) -> Any:
    asked = SyncGroupRequest(
        "g",
        member.generation_id,
        member.member_id,
        assignments=[SyncGroupRequestAssignment(member.member_id, each) for each in assignments.values()],
    )
    return driver.ask(lambda shard, ticket: shard.sync_group(asked, ticket=ticket, now_ms=driver.now_ms))


def heartbeat(driver: GroupDriver, member_id: str) -> Any:
    asked = HeartbeatRequest("g", 1, member_id)
    return driver.ask(lambda shard, ticket: shard.heartbeat(asked, ticket=ticket, now_ms=driver.now_ms)).error_code


def the_group(driver: GroupDriver) -> ClassicGroup:
    group = driver.shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    return group


@pytest.mark.parametrize(
    ("asked", "client", "code"),
    [
        (request(group_id="g" * 32_001), CLIENT, ErrorCode.INVALID_GROUP_ID),
        (request(group_instance_id="ö" * 16_001), CLIENT, ErrorCode.INVALID_REQUEST),
        (request(protocol_type="t" * 32_001), CLIENT, ErrorCode.INVALID_REQUEST),
        (request(protocols=[JoinGroupRequestProtocol("p" * 32_001)]), CLIENT, ErrorCode.INVALID_REQUEST),
        (request(), Client("c" * 32_001, "/127.0.0.1"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_names_that_no_record_could_hold_are_refused(asked: JoinGroupRequest, client: Client, code: ErrorCode) -> None:
    driver = GroupDriver()
    assert join(driver, asked, client).error_code == code
    assert driver.shard.groups == {}


def test_the_longest_names_can_be_written() -> None:
    longest = "n" * MAX_NAME_BYTES
    driver = GroupDriver()
    asked = request(group_instance_id=longest, protocols=[JoinGroupRequestProtocol(longest, SUBSCRIPTION)])
    member = join(driver, asked, Client(longest, "/127.0.0.1"), STATIC)
    assert sync(driver, member, a=b"t-0").error_code == ErrorCode.NONE
    driver.restart()
    assert the_group(driver).static_members == {longest: member.member_id}


def test_an_assignment_that_is_too_large_to_write_is_not_taken_and_the_group_tries_again() -> None:
    driver = GroupDriver()
    member = join(driver, request())
    waiting = send_join(driver, request(member_id=member.member_id, metadata=subscription_bytes(["u"])))
    member = driver.answers.pop(waiting)
    answer = sync(driver, member, a=bytes(1_100_000))
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert the_group(driver).state is ClassicState.PREPARING
    assert "too large" in driver.notices[-1]
    again = join(driver, request(member_id=member.member_id))
    assert sync(driver, again, a=bytes(1_000_000)).error_code == ErrorCode.NONE
    assert the_group(driver).state is ClassicState.STABLE


def test_what_only_looks_too_large_is_written() -> None:
    driver = GroupDriver()
    # A name of 30,000 characters could be 120,000 bytes, and stands in the record three times.
    member = join(driver, request(), Client("c" * 30_000, "/127.0.0.1"))
    assert sync(driver, member, a=bytes(950_000)).error_code == ErrorCode.NONE


def test_the_names_of_a_group_count_too() -> None:
    driver = GroupDriver()
    member = join(driver, request(), Client("c" * 30_000, "/127.0.0.1"))
    assert sync(driver, member, a=bytes(970_000)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_static_member_that_returns_with_more_than_fits_starts_a_rebalance() -> None:
    driver = GroupDriver()
    member = join(driver, request(group_instance_id="i1"), version=STATIC)
    sync(driver, member, a=bytes(900_000))
    back = join(driver, request(group_instance_id="i1", metadata=bytes(200_000)), version=STATIC)
    assert back.generation_id == 2
    assert the_group(driver).state is ClassicState.COMPLETING


def test_ids_are_not_given_out_without_end() -> None:
    driver = GroupDriver()
    codes = [join(driver, request(), version=9).error_code for _ in range(MAX_PENDING_JOINS + 1)]
    assert set(codes[:-1]) == {ErrorCode.MEMBER_ID_REQUIRED}
    assert codes[-1] == ErrorCode.GROUP_MAX_SIZE_REACHED
    driver.move(10_000)
    assert not the_group(driver).pending_joins
    assert join(driver, request(), version=9).error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_what_clients_say_is_one_line_in_the_log() -> None:
    driver = GroupDriver()
    join(driver, request(reason="a\nb"), Client("x\r\n[group other]", "/127.0.0.1"))
    assert "it says: a?b" in driver.notices[0]
    assert all(notice.isprintable() for notice in driver.notices)
    join(driver, request(group_id="h", reason="r" * 30_000))
    assert max(map(len, driver.notices)) == MAX_NOTICE_CHARACTERS + 3


def test_static_members_that_allow_no_time_and_never_come_do_not_keep_the_coordinator_busy() -> None:
    driver = GroupDriver()
    member = join(driver, request(group_instance_id="i1", rebalance_timeout_ms=0), version=STATIC)
    sync(driver, member, a=b"t-0")
    waiting = send_join(driver, request(group_instance_id="i2", rebalance_timeout_ms=-2), version=STATIC)
    asked = LeaveGroupRequest("g", members=[MemberIdentity("", "i2")])
    driver.ask(lambda shard, ticket: shard.leave_group(asked, ticket=ticket, version=5, now_ms=driver.now_ms))
    assert driver.answers.pop(waiting).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    driver.move(9_000)
    assert len([notice for notice in driver.notices if "no member joined" in notice]) == 10


def test_a_group_of_a_thousand_members_rebalances() -> None:
    driver = GroupDriver({"group.initial.rebalance.delay.ms": "3000"})
    tickets = [send_join(driver, request()) for _ in range(1_000)]
    driver.move(6_000)
    members = [driver.answers.pop(ticket) for ticket in tickets]
    leader = next(member for member in members if member.members)
    assert [member for member in members if member.members] == [leader]
    assert {each.member_id for each in leader.members} == {member.member_id for member in members}
    shares = [SyncGroupRequestAssignment(each.member_id, f"t-{n}".encode()) for n, each in enumerate(leader.members)]
    asked = SyncGroupRequest("g", 1, leader.member_id, assignments=shares)
    driver.ask(lambda shard, ticket: shard.sync_group(asked, ticket=ticket, now_ms=driver.now_ms))
    for _ in range(10):
        driver.move(1_000)
        assert {heartbeat(driver, member.member_id) for member in members} == {ErrorCode.NONE}
    assert len(driver.shard.deadlines._heap) < 3_000  # heartbeats leave nothing behind
    driver.restart()
    assert len(the_group(driver).members) == 1_000


@pytest.mark.slow
def test_ten_thousand_groups_with_offsets_are_small() -> None:
    records = [
        offset_commit(f"group-{group}", "orders", partition, OffsetCommitValue(10**6 + group, -1, "", 10**12 + group))
        for group in range(10_000)
        for partition in range(10)
    ]
    data = [encode_coordinator_record(record.type, record.key, record.value, record.version) for record in records]
    driver = GroupDriver(NO_DELAY)
    tracemalloc.start()
    try:
        for key, value in data:
            driver.shard.replay(decode_coordinator_record(GROUP_RECORDS, key, value))
        assert len(driver.shard.groups) == 10_000
        assert tracemalloc.get_traced_memory()[0] < 50_000_000
    finally:
        tracemalloc.stop()
