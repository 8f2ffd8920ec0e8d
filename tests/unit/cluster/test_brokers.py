"""Brokers register, live, shut down and die: stories of one cluster, and what the controller answers."""

from typing import Any

import pytest

from headrace.cluster.brokers import register_controller, unregister_broker
from headrace.cluster.decision import Decision
from headrace.cluster.directories import assign_replicas
from headrace.cluster.image import LOST_DIRECTORY, UNASSIGNED_DIRECTORY
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages import controller_registration
from headrace.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from headrace.protocol.messages.broker_registration import Feature
from headrace.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.unit.cluster.harness import CONTROLLER_ID, EVERYTHING, SESSION_TIMEOUT_MS, Cluster, brief, directory

SAME = b"\x55" * 16


def test_a_broker_registers_fenced_and_serves_once_it_has_read_so() -> None:
    cluster = Cluster()
    answer = cluster.register(1)
    assert answer.error_code == ErrorCode.NONE
    epoch = answer.broker_epoch
    assert epoch == len(cluster.log) - 1  # the offset of the record that registered it
    assert cluster.image.brokers[1].fenced
    behind = cluster.heartbeat(1, current_metadata_offset=epoch - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    waiting = cluster.heartbeat(1, want_fence=True)
    assert (waiting.is_caught_up, waiting.is_fenced) == (True, True)
    ready = cluster.heartbeat(1)
    assert (ready.is_caught_up, ready.is_fenced, ready.should_shut_down) == (True, False, False)
    assert cluster.image.is_active(1)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "another"}, "INCONSISTENT_CLUSTER_ID"),
        ({"is_migrating_zk_broker": True}, "BROKER_ID_NOT_REGISTERED"),
        ({"log_dirs": []}, "INVALID_REGISTRATION"),
        ({"log_dirs": [directory(2), directory(2)]}, "INVALID_REGISTRATION"),
        ({"log_dirs": [UNASSIGNED_DIRECTORY]}, "INVALID_REGISTRATION"),
        ({"log_dirs": [directory(1)]}, "INVALID_REGISTRATION"),
        ({"features": []}, "INVALID_REGISTRATION"),
        ({"features": [Feature("metadata.version", 7, 29)]}, "UNSUPPORTED_VERSION"),
        ({"features": [Feature("metadata.version", 7, 30)]}, "UNSUPPORTED_VERSION"),  # lacks the others
        ({"features": [row for row in EVERYTHING if row.name != "kraft.version"]}, "UNSUPPORTED_VERSION"),
        ({"features": [*EVERYTHING, Feature("of.tomorrow", 1, 2)]}, "UNSUPPORTED_VERSION"),
        ({"features": [*EVERYTHING, Feature("of.tomorrow", 0, 2)]}, "NONE"),
    ],
)
def test_a_broker_that_does_not_fit_is_refused(changes: dict[str, Any], code: str) -> None:
    cluster = Cluster(1)
    before = len(cluster.log)
    assert ErrorCode(cluster.register(2, **changes).error_code).name == code
    assert (len(cluster.log) == before) == (code != "NONE")


def test_two_brokers_with_one_id_exclude_each_other_until_the_first_is_gone() -> None:
    cluster = Cluster(1)
    assert cluster.register(1).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.now_ms += SESSION_TIMEOUT_MS + 1
    assert cluster.register(1).error_code == ErrorCode.NONE


def test_the_same_broker_may_register_again_and_keeps_its_epoch() -> None:
    cluster = Cluster()
    cluster.start_broker(1, incarnation_id=SAME)
    cluster.create_topic("orders", [1])
    epoch = cluster.image.brokers[1].epoch
    answer = cluster.register(1, incarnation_id=SAME, rack="moved")
    assert answer.broker_epoch == epoch
    assert cluster.image.brokers[1].rack == "moved"
    assert cluster.image.is_active(1)
    assert brief(cluster.partition("orders")) == "1@0 isr=1"


def test_a_heartbeat_of_an_old_registration_is_refused() -> None:
    cluster = Cluster(1)
    stale = cluster.heartbeat(1, broker_epoch=cluster.image.brokers[1].epoch - 1)
    assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert cluster.heartbeat(9).error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_broker_that_is_not_heard_of_loses_what_it_leads() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.create_topic("orders", [1, 2, 3], [2, 3, 1])
    assert cluster.pass_time(SESSION_TIMEOUT_MS, alive=(2, 3)) == []
    assert cluster.pass_time(1, alive=(2, 3)) == [1]
    assert cluster.image.brokers[1].fenced
    assert brief(cluster.partition("orders", 0)) == "2@1 isr=2,3"
    assert brief(cluster.partition("orders", 1)) == "2@0 isr=2,3"


def test_when_all_die_the_last_one_leads_again_after_it_is_back() -> None:
    cluster = Cluster(1, 2, levels={"eligible.leader.replicas.version": 0})
    cluster.create_topic("orders", [1, 2])
    cluster.kill(1)
    cluster.kill(2)
    assert brief(cluster.partition("orders")) == "none@2 isr=2"
    cluster.heartbeat(1)
    assert brief(cluster.partition("orders")) == "none@2 isr=2"
    cluster.heartbeat(2)
    assert brief(cluster.partition("orders")) == "2@3 isr=2"


def test_with_eligible_leaders_anyone_may_come_back_who_has_all() -> None:
    cluster = Cluster(1, 2, 3, static={"min.insync.replicas": "2"})
    cluster.create_topic("orders", [1, 2, 3])
    cluster.kill(3)
    cluster.kill(1)
    assert brief(cluster.partition("orders")) == "2@1 isr=2 elr=1"
    cluster.kill(2)
    assert brief(cluster.partition("orders")) == "none@2 elr=1,2 last=2"
    cluster.heartbeat(3)
    assert brief(cluster.partition("orders")) == "none@2 elr=1,2 last=2"
    cluster.heartbeat(1)
    assert brief(cluster.partition("orders")) == "1@3 isr=1 elr=2"


def test_a_crash_is_no_clean_shutdown_and_its_replica_is_not_eligible() -> None:
    cluster = Cluster(1, 2, 3, static={"min.insync.replicas": "2"})
    cluster.create_topic("orders", [1, 2])
    cluster.kill(1)
    cluster.kill(2)
    assert brief(cluster.partition("orders")) == "none@2 elr=1,2 last=2"
    cluster.start_broker(1, previous_broker_epoch=-1)
    assert brief(cluster.partition("orders")) == "none@2 elr=2 last=2"
    old_epoch = cluster.image.brokers[2].epoch
    cluster.start_broker(2, previous_broker_epoch=old_epoch)
    assert brief(cluster.partition("orders")) == "2@3 isr=2"


def test_after_a_crash_of_the_only_broker_its_partitions_recover() -> None:
    cluster = Cluster(1)
    cluster.create_topic("orders", [1])
    cluster.now_ms += SESSION_TIMEOUT_MS + 1
    cluster.start_broker(1)
    assert brief(cluster.partition("orders")) == "1@2 isr=1 recovering"


def test_the_epoch_of_a_new_incarnation_is_where_its_record_stands_behind_the_clearing_up() -> None:
    cluster = Cluster(1, 2)
    cluster.create_topic("orders", [1, 2], [1, 2])
    cluster.now_ms += SESSION_TIMEOUT_MS + 1
    before = len(cluster.log)
    answer = cluster.register(1)
    assert len(cluster.log) == before + 3  # two partitions change hands first
    assert answer.broker_epoch == len(cluster.log) - 1
    assert not cluster.heartbeat(1, current_metadata_offset=answer.broker_epoch - 1).is_caught_up


def test_a_controller_does_not_keep_its_own_broker_waiting_after_a_crash() -> None:
    cluster = Cluster(CONTROLLER_ID, 1)
    cluster.create_topic("orders", [CONTROLLER_ID])
    cluster.restart_controller()
    assert cluster.register(1).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.start_broker(CONTROLLER_ID)
    assert cluster.partition("orders").leader == CONTROLLER_ID


def test_a_controlled_shutdown_gives_leaderships_away_and_waits_until_all_know() -> None:
    cluster = Cluster(1, 2)
    cluster.create_topic("orders", [1, 2], [2, 1])
    going = cluster.heartbeat(1, want_shut_down=True)
    assert (going.is_fenced, going.should_shut_down) == (False, False)
    assert cluster.image.brokers[1].in_controlled_shutdown
    assert brief(cluster.partition("orders", 0)) == "2@1 isr=2"
    assert brief(cluster.partition("orders", 1)) == "2@0 isr=2"
    behind = len(cluster.log) - 2
    cluster.heartbeat(2, current_metadata_offset=behind)
    assert not cluster.heartbeat(1, want_shut_down=True).should_shut_down
    cluster.heartbeat(2)
    done = cluster.heartbeat(1, want_shut_down=True)
    assert (done.is_fenced, done.should_shut_down) == (True, True)
    assert cluster.image.brokers[1].fenced
    cluster.start_broker(1, previous_broker_epoch=cluster.image.brokers[1].epoch)  # at once: its session ended with it
    assert not cluster.image.brokers[1].in_controlled_shutdown


def test_a_shutdown_ends_at_once_where_nothing_is_led_or_nobody_is_left() -> None:
    cluster = Cluster(1, 2)
    assert cluster.heartbeat(2, want_shut_down=True).should_shut_down
    cluster.create_topic("orders", [1])
    assert not cluster.heartbeat(1, want_shut_down=True).should_shut_down
    assert brief(cluster.partition("orders")) == "none@1 elr=1 last=1"
    assert cluster.heartbeat(1, want_shut_down=True).should_shut_down


def test_a_shutdown_goes_on_under_another_controller() -> None:
    cluster = Cluster(1, 2)
    cluster.create_topic("orders", [1, 2])
    cluster.heartbeat(1, want_shut_down=True)
    cluster.restart_controller()
    cluster.heartbeat(2)
    assert cluster.heartbeat(1, want_shut_down=True).should_shut_down


def test_a_broker_that_crashed_while_shutting_down_starts_afresh() -> None:
    cluster = Cluster(1, 2)
    cluster.create_topic("orders", [1, 2])
    cluster.heartbeat(1, want_shut_down=True)
    cluster.now_ms += SESSION_TIMEOUT_MS + 1
    cluster.start_broker(1)
    assert cluster.image.is_active(1)
    assert not cluster.heartbeat(1).should_shut_down


def test_a_fenced_broker_may_shut_down_and_an_unfenced_one_may_ask_to_be_fenced() -> None:
    cluster = Cluster(1)
    cluster.create_topic("orders", [1])
    assert cluster.heartbeat(1, want_fence=True).is_fenced
    assert cluster.partition("orders").leader == -1
    assert cluster.heartbeat(1, want_shut_down=True).should_shut_down


def test_a_broker_in_shutdown_gets_no_new_replicas() -> None:
    cluster = Cluster(1, 2)
    cluster.create_topic("orders", [1])
    cluster.heartbeat(1, want_shut_down=True)
    for number in range(4):
        assert cluster.create_topic(f"t{number}").partitions[0].replicas == (2,)


def test_a_failed_disk_costs_only_the_partitions_on_it() -> None:
    cluster = Cluster(2)
    first, second = b"\1" * 15 + b"a", b"\1" * 15 + b"b"
    cluster.start_broker(1, log_dirs=[first, second])
    cluster.create_topic("orders", [1, 2], [1, 2])
    cluster.set_partition("orders", 0, replicas=(1, 2), isr=(1, 2), leader=1, directories=(first, directory(2)))
    cluster.set_partition("orders", 1, replicas=(1, 2), isr=(1, 2), leader=1, directories=(second, directory(2)))
    cluster.heartbeat(1, offline_log_dirs=[first])
    assert brief(cluster.partition("orders", 0)) == "2@6 isr=2"
    assert brief(cluster.partition("orders", 1)) == "1@5 isr=1,2"
    assert cluster.image.brokers[1].log_dirs == (second,)
    before = len(cluster.log)
    cluster.heartbeat(1, offline_log_dirs=[first])
    assert len(cluster.log) == before


def assign(cluster: Cluster, broker_id: int, where: bytes, topic_id: bytes, *indexes: int) -> list[str]:
    rows = [DirectoryData(where, [TopicData(topic_id, [PartitionData(index) for index in indexes])])]
    request = AssignReplicasToDirsRequest(broker_id, cluster.image.brokers[broker_id].epoch, rows)
    reply = cluster.do(assign_replicas(cluster.image, cluster.settings, request))
    assert reply.error_code == ErrorCode.NONE
    assert reply.directories[0].id == where
    return [ErrorCode(row.error_code).name for row in reply.directories[0].topics[0].partitions]


def test_a_broker_with_two_disks_says_where_its_replicas_lie() -> None:
    cluster = Cluster(2)
    first, second = b"\1" * 15 + b"a", b"\1" * 15 + b"b"
    cluster.start_broker(1, log_dirs=[first, second])
    topic_id = cluster.create_topic("orders", [1, 2], [1, 2], [2, 1]).topic_id
    assert cluster.partition("orders").directories == (UNASSIGNED_DIRECTORY, directory(2))
    assert assign(cluster, 1, first, topic_id, 0, 2, 7) == ["NONE", "NONE", "UNKNOWN_TOPIC_OR_PARTITION"]
    assert assign(cluster, 1, second, topic_id, 1) == ["NONE"]
    assert [cluster.partition("orders", index).directory_of(1) for index in range(3)] == [first, second, first]
    assert brief(cluster.partition("orders")) == "1@0 isr=1,2"
    before = len(cluster.log)
    assert assign(cluster, 1, first, topic_id, 0) == ["NONE"]
    assert len(cluster.log) == before
    assert assign(cluster, 1, LOST_DIRECTORY, topic_id, 0) == ["NONE"]
    assert brief(cluster.partition("orders")) == "2@1 isr=2"
    assert assign(cluster, 1, first, b"\7" * 16, 0) == ["UNKNOWN_TOPIC_ID"]
    alone = cluster.create_topic("alone", [2]).topic_id
    assert assign(cluster, 1, first, alone, 0) == ["NOT_LEADER_OR_FOLLOWER"]


def test_replicas_are_assigned_only_by_their_broker_and_where_records_can_say_so() -> None:
    cluster = Cluster(1)
    stale = assign_replicas(cluster.image, cluster.settings, AssignReplicasToDirsRequest(1, 0))
    assert stale.reply.error_code == ErrorCode.STALE_BROKER_EPOCH
    old = Cluster(1, metadata_version=16)
    request = AssignReplicasToDirsRequest(1, old.image.brokers[1].epoch)
    reply = assign_replicas(old.image, old.settings, request).reply
    assert reply.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_cordoned_directories_are_remembered_and_get_no_new_replicas() -> None:
    cluster = Cluster(1, 2)
    cluster.heartbeat(1, cordoned_log_dirs=[directory(1)])
    assert cluster.image.brokers[1].cordoned_log_dirs == (directory(1),)
    before = len(cluster.log)
    cluster.heartbeat(1, cordoned_log_dirs=[directory(1)])
    assert len(cluster.log) == before
    assert all(cluster.create_topic(f"t{n}").partitions[0].replicas == (2,) for n in range(4))
    cluster.heartbeat(1, cordoned_log_dirs=[])
    assert cluster.image.brokers[1].takes_new_replicas()


def test_an_unregistered_broker_is_gone_with_what_it_led() -> None:
    cluster = Cluster(1, 2)
    cluster.create_topic("orders", [1, 2])
    reply = cluster.do(unregister_broker(cluster.image, cluster.settings, UnregisterBrokerRequest(1)))
    assert (reply.error_code, reply.error_message) == (0, None)
    assert list(cluster.image.brokers) == [2]
    assert brief(cluster.partition("orders")) == "2@1 isr=2"
    again = unregister_broker(cluster.image, cluster.settings, UnregisterBrokerRequest(1))
    assert again.records == ()
    assert again.reply.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_controllers_register_where_metadata_version_knows_them() -> None:
    request = controller_registration.ControllerRegistrationRequest(
        controller_id=CONTROLLER_ID,
        incarnation_id=SAME,
        listeners=[controller_registration.Listener("CONTROLLER", "host", 9093, 0)],
        features=[controller_registration.Feature("metadata.version", 7, 30)],
    )
    cluster = Cluster()
    cluster.do(register_controller(cluster.image, request))
    assert cluster.image.controllers[CONTROLLER_ID].listeners[0].port == 9093
    old = Cluster(metadata_version=14)
    decision: Decision[Any] = register_controller(old.image, request)
    assert decision.records == ()
    assert decision.reply.error_code == ErrorCode.UNSUPPORTED_VERSION
