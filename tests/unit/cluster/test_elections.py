"""Elections that somebody asks for, ISR changes that leaders ask for, and reassignments."""

from typing import Any

import pytest

from headrace.cluster.decision import MAX_RECORDS_PER_REQUEST, Decision
from headrace.cluster.elections import elect_leaders, routine_elections
from headrace.cluster.isr import alter_partition
from headrace.cluster.reassignments import alter_reassignments, list_reassignments
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    ResponsePartitionData,
    TopicData,
)
from headrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.unit.cluster.harness import Cluster, brief

PREFERRED, UNCLEAN = 0, 1


def elect(cluster: Cluster, kind: int, *partitions: tuple[str, int]) -> list[str]:
    topics = [TopicPartitions(name, [index]) for name, index in partitions]
    request = ElectLeadersRequest(kind, topics or None)
    reply = cluster.do(elect_leaders(cluster.image, cluster.settings, request))
    rows = [(result.topic, row) for result in reply.replica_election_results for row in result.partition_result]
    return [f"{topic}-{row.partition_id} {ErrorCode(row.error_code).name}" for topic, row in rows]


def test_the_preferred_leader_leads_again_when_asked() -> None:
    cluster = Cluster(1, 2)
    cluster.create_topic("orders", [1, 2], [1, 2])
    cluster.kill(1)
    assert elect(cluster, PREFERRED, ("orders", 0)) == ["orders-0 PREFERRED_LEADER_NOT_AVAILABLE"]
    cluster.heartbeat(1)
    report(cluster, 2, "orders", 0, [2, 1])
    assert elect(cluster, PREFERRED, ("orders", 0), ("orders", 1), ("gone", 0), ("orders", 7)) == [
        "orders-0 NONE",
        "orders-1 PREFERRED_LEADER_NOT_AVAILABLE",  # not in sync yet
        "gone-0 UNKNOWN_TOPIC_OR_PARTITION",
        "orders-7 UNKNOWN_TOPIC_OR_PARTITION",
    ]
    assert brief(cluster.partition("orders")) == "1@2 isr=2,1"
    assert elect(cluster, PREFERRED, ("orders", 0)) == ["orders-0 ELECTION_NOT_NEEDED"]


def test_electing_everything_tells_only_of_what_needed_it() -> None:
    cluster = Cluster(1, 2)
    cluster.create_topic("a", [1, 2], [2, 1])
    cluster.set_partition("a", 0, replicas=(1, 2), isr=(1, 2), leader=2)
    assert elect(cluster, PREFERRED) == ["a-0 NONE"]
    assert elect(cluster, PREFERRED) == []


def test_an_unclean_election_takes_whoever_lives() -> None:
    cluster = Cluster(1, 2, levels={"eligible.leader.replicas.version": 0})
    cluster.create_topic("orders", [1, 2])
    cluster.kill(2)
    cluster.kill(1)
    assert elect(cluster, UNCLEAN, ("orders", 0)) == ["orders-0 ELIGIBLE_LEADERS_NOT_AVAILABLE"]
    cluster.heartbeat(2)
    assert brief(cluster.partition("orders")) == "none@1 isr=1"
    assert elect(cluster, UNCLEAN, ("orders", 0)) == ["orders-0 NONE"]
    assert brief(cluster.partition("orders")) == "2@2 isr=2 recovering"
    assert elect(cluster, UNCLEAN, ("orders", 0)) == ["orders-0 ELECTION_NOT_NEEDED"]


def test_an_unknown_kind_of_election_is_refused() -> None:
    cluster = Cluster(1)
    assert elect_leaders(cluster.image, cluster.settings, ElectLeadersRequest(7)).reply.error_code == 42


def test_from_time_to_time_preferred_leaders_come_back_a_few_at_once() -> None:
    cluster = Cluster(1, 2)
    cluster.create_topic("orders", [1, 2], [1, 2], [2, 1])
    for index in (0, 1):
        cluster.set_partition("orders", index, replicas=(1, 2), isr=(1, 2), leader=2)
    records = routine_elections(cluster.image, cluster.settings, limit=1)
    assert len(records) == 1
    cluster.do(Decision(tuple(records), None))
    assert [cluster.partition("orders", index).leader for index in range(3)] == [1, 2, 2]
    cluster.do(Decision(tuple(routine_elections(cluster.image, cluster.settings, limit=10)), None))
    assert routine_elections(cluster.image, cluster.settings, limit=10) == []


def test_a_topic_that_allows_it_gets_any_leader_when_nobody_else_is_left() -> None:
    cluster = Cluster(1, 2, levels={"eligible.leader.replicas.version": 0})
    cluster.create_topic("strict", [1, 2])
    cluster.create_topic("loose", [1, 2], unclean_leader_election_enable="true")
    cluster.kill(2)
    cluster.kill(1)
    cluster.heartbeat(2)
    assert brief(cluster.partition("strict")) == "none@1 isr=1"
    assert brief(cluster.partition("loose")) == "2@2 isr=2 recovering"


# ---- AlterPartition


def report(
    cluster: Cluster, broker_id: int, topic: str, index: int, isr: list[int], **changes: Any
) -> ResponsePartitionData:
    partition = cluster.partition(topic, index)
    wanted = PartitionData(
        partition_index=index,
        leader_epoch=partition.leader_epoch,
        new_isr_with_epochs=[BrokerState(each, cluster.image.brokers[each].epoch) for each in isr],
        partition_epoch=partition.partition_epoch,
    )._replace(**changes)
    request = AlterPartitionRequest(
        broker_id,
        cluster.image.brokers[broker_id].epoch,
        [TopicData(cluster.image.topic_ids[topic], [wanted])],
    )
    reply = cluster.do(alter_partition(cluster.image, cluster.settings, request))
    assert reply.error_code == ErrorCode.NONE
    return reply.topics[0].partitions[0]


def test_a_leader_shrinks_and_grows_the_isr() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.create_topic("orders", [1, 2, 3])
    answer = report(cluster, 1, "orders", 0, [1, 3])
    assert answer == ResponsePartitionData(0, 0, leader_id=1, leader_epoch=0, isr=(1, 3), partition_epoch=1)
    assert brief(cluster.partition("orders")) == "1@0 isr=1,3"
    assert report(cluster, 1, "orders", 0, [1, 2, 3]).partition_epoch == 2
    before = len(cluster.log)
    assert report(cluster, 1, "orders", 0, [1, 2, 3]).error_code == 0
    assert len(cluster.log) == before


def test_version_two_reports_brokers_without_epochs() -> None:
    cluster = Cluster(1, 2)
    cluster.create_topic("orders", [1, 2])
    assert report(cluster, 1, "orders", 0, [], new_isr=[1]).isr == (1,)


@pytest.mark.parametrize(
    ("isr", "changes", "code"),
    [
        ([1], {"leader_epoch": 6}, "NOT_CONTROLLER"),
        ([1], {"partition_epoch": 10}, "NOT_CONTROLLER"),
        ([1], {"leader_epoch": 4}, "FENCED_LEADER_EPOCH"),
        ([1], {"partition_epoch": 8}, "INVALID_UPDATE_VERSION"),
        ([2], {}, "INVALID_REQUEST"),
        ([1, 4], {}, "INVALID_REQUEST"),
        ([1, 1], {}, "INVALID_REQUEST"),
        ([1, 3], {}, "INELIGIBLE_REPLICA"),
        ([1], {"new_isr_with_epochs": [BrokerState(1, 0)]}, "INELIGIBLE_REPLICA"),
        ([1], {"leader_recovery_state": 1}, "INVALID_REQUEST"),
        ([1], {"partition_index": 5}, "UNKNOWN_TOPIC_OR_PARTITION"),
        ([1, 2], {}, "NONE"),
    ],
)
def test_a_report_must_fit_what_the_controller_knows(isr: list[int], changes: dict[str, Any], code: str) -> None:
    cluster = Cluster(1, 2, 3, 4)
    cluster.create_topic("orders", [1, 2, 3])
    cluster.kill(3)
    cluster.set_partition("orders", replicas=(1, 2, 3), isr=(1, 2), leader=1)
    assert ErrorCode(report(cluster, 1, "orders", 0, isr, **changes).error_code).name == code


def test_only_the_leader_reports_and_only_with_its_current_registration() -> None:
    cluster = Cluster(1, 2)
    cluster.create_topic("orders", [1, 2])
    assert report(cluster, 2, "orders", 0, [1, 2]).error_code == ErrorCode.INVALID_REQUEST
    stale = alter_partition(cluster.image, cluster.settings, AlterPartitionRequest(1, 0))
    assert stale.reply.error_code == ErrorCode.STALE_BROKER_EPOCH
    epoch = cluster.image.brokers[1].epoch
    unknown = AlterPartitionRequest(1, epoch, [TopicData(b"\7" * 16, [PartitionData(0)])])
    reply = alter_partition(cluster.image, cluster.settings, unknown).reply
    assert reply.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_recovering_leader_says_when_its_log_is_in_order() -> None:
    cluster = Cluster(1, 2)
    cluster.create_topic("orders", [1, 2])
    cluster.set_partition("orders", replicas=(1, 2), isr=(1,), leader=1, leader_recovery_state=1)
    assert report(cluster, 1, "orders", 0, [1, 2], leader_recovery_state=1).error_code == ErrorCode.INVALID_REQUEST
    assert report(cluster, 1, "orders", 0, [1]).leader_recovery_state == 0
    assert brief(cluster.partition("orders")) == "1@5 isr=1"


# ---- reassignments


def move(cluster: Cluster, replicas: list[int] | None, *, topic: str = "orders", index: int = 0, **more: Any) -> str:
    rows = [ReassignableTopic(topic, [ReassignablePartition(index, replicas)])]
    request = AlterPartitionReassignmentsRequest(topics=rows, **more)
    reply = cluster.do(alter_reassignments(cluster.image, cluster.settings, request))
    assert reply.error_code == ErrorCode.NONE
    return ErrorCode(reply.responses[0].partitions[0].error_code).name


def ongoing(cluster: Cluster, *topics: str) -> list[str]:
    wanted = [ListPartitionReassignmentsTopics(name, [0, 1, 9]) for name in topics] or None
    reply = list_reassignments(cluster.image, ListPartitionReassignmentsRequest(topics=wanted))
    rows = [(topic.name, row) for topic in reply.topics for row in topic.partitions]
    return [
        f"{name}-{row.partition_index} {list(row.replicas)} +{list(row.adding_replicas)} -{list(row.removing_replicas)}"
        for name, row in rows
    ]


def test_a_partition_moves_when_its_new_replicas_are_in_sync() -> None:
    cluster = Cluster(1, 2, 3, 4)
    cluster.create_topic("orders", [1, 2], [1, 2])
    assert ongoing(cluster) == []
    assert move(cluster, [3, 4]) == "NONE"
    assert brief(cluster.partition("orders")) == "1@0 isr=1,2 adding=3,4 removing=1,2"
    assert ongoing(cluster) == ["orders-0 [3, 4, 1, 2] +[3, 4] -[1, 2]"]
    assert ongoing(cluster, "orders", "missing") == ongoing(cluster)
    report(cluster, 1, "orders", 0, [1, 2, 3])
    assert ongoing(cluster)
    done = report(cluster, 1, "orders", 0, [1, 2, 3, 4])
    assert done.error_code == ErrorCode.NEW_LEADER_ELECTED
    assert brief(cluster.partition("orders")) == "3@1 isr=3,4"
    assert cluster.partition("orders").replicas == (3, 4)
    assert ongoing(cluster) == []


def test_a_mere_change_of_order_is_done_at_once() -> None:
    cluster = Cluster(1, 2)
    cluster.create_topic("orders", [1, 2])
    assert move(cluster, [2, 1]) == "NONE"
    assert cluster.partition("orders").replicas == (2, 1)
    assert brief(cluster.partition("orders")) == "1@0 isr=1,2"


def test_replicas_become_fewer_only_without_losing_one_in_sync() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.create_topic("orders", [1, 2, 3])
    report(cluster, 1, "orders", 0, [1, 2])
    assert move(cluster, [1, 3]) == "NONE"
    assert brief(cluster.partition("orders")) == "1@0 isr=1,2 removing=2"
    report(cluster, 1, "orders", 0, [1, 2, 3])
    assert brief(cluster.partition("orders")) == "1@1 isr=1,3"


def test_a_move_can_be_given_up() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.create_topic("orders", [1, 2])
    assert move(cluster, None) == "NO_REASSIGNMENT_IN_PROGRESS"
    move(cluster, [2, 3])
    report(cluster, 1, "orders", 0, [1, 2])
    assert move(cluster, None) == "NONE"
    assert cluster.partition("orders").replicas == (2, 1)
    assert brief(cluster.partition("orders")) == "1@1 isr=1,2"


def test_a_move_is_not_given_up_when_only_the_new_ones_have_the_records() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.create_topic("orders", [1])
    cluster.create_topic("loose", [1], unclean_leader_election_enable="true")
    for name in ("orders", "loose"):
        cluster.set_partition(
            name, replicas=(2, 3, 1), isr=(2,), leader=2, adding_replicas=(2, 3), removing_replicas=(1,)
        )
    assert move(cluster, None) == "INVALID_REPLICA_ASSIGNMENT"
    assert move(cluster, None, topic="loose") == "NONE"
    assert cluster.partition("loose").replicas == (1,)


def test_a_second_move_replaces_the_first_and_waits_for_what_that_was_adding() -> None:
    cluster = Cluster(1, 2, 3, 4)
    cluster.create_topic("orders", [1, 2])
    move(cluster, [3, 2])
    assert brief(cluster.partition("orders")) == "1@0 isr=1,2 adding=3 removing=1"
    assert move(cluster, [1, 2, 3]) == "NONE"
    assert brief(cluster.partition("orders")) == "1@0 isr=1,2 adding=3"
    assert move(cluster, [4, 2]) == "NONE"
    assert brief(cluster.partition("orders")) == "1@0 isr=1,2 adding=4 removing=1,3"


@pytest.mark.parametrize("replicas", [[1, 2], [2, 1], [], None], ids=["no change", "a change", "nonsense", "given up"])
def test_a_request_has_only_so_many_rows(replicas: list[int] | None) -> None:
    cluster = Cluster(1, 2)
    cluster.create_topic("orders", [1, 2])
    rows = [ReassignablePartition(0, replicas)] * (MAX_RECORDS_PER_REQUEST + 1)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic("orders", rows)])
    decision = alter_reassignments(cluster.image, cluster.settings, request)
    *looked_at, refused = [row.error_code for row in decision.reply.responses[0].partitions]
    assert ErrorCode.POLICY_VIOLATION not in looked_at
    assert refused == ErrorCode.POLICY_VIOLATION
    assert len(decision.records) == (MAX_RECORDS_PER_REQUEST if replicas == [2, 1] else 0)


def test_moves_that_make_no_sense_are_refused() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.create_topic("orders", [1, 2])
    assert move(cluster, []) == "INVALID_REPLICA_ASSIGNMENT"
    assert move(cluster, [1, 9]) == "INVALID_REPLICA_ASSIGNMENT"
    assert move(cluster, [1, 1]) == "INVALID_REPLICA_ASSIGNMENT"
    assert move(cluster, [1], topic="missing") == "UNKNOWN_TOPIC_OR_PARTITION"
    assert move(cluster, [1], index=9) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert move(cluster, [1, 2, 3], allow_replication_factor_change=False) == "INVALID_REPLICATION_FACTOR"
    assert move(cluster, [3, 2], allow_replication_factor_change=False) == "NONE"
    assert move(cluster, [3, 2, 1], allow_replication_factor_change=False) == "INVALID_REPLICATION_FACTOR"
