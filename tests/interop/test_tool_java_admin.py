"""Apache Kafka's command-line tools for topics, configs and the cluster say the same of Headrace as of Apache Kafka."""

import json
import re
from pathlib import Path

import pytest

from tests.support.clients_java import BOOTSTRAP, Both
from tests.support.kafka_tools import complaints
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kafka


# Topics


def test_topic_command(both: Both, made: str) -> None:
    def topics(*arguments: str, code: int = 0) -> str:
        return both.run("TopicCommand", *BOOTSTRAP, *arguments, "--topic", made, code=code)

    assert "REASON" in topics("--create", code=1)
    topics("--create", "--if-not-exists")
    topics("--alter", "--partitions", "5")
    described = both.settle("TopicCommand", *BOOTSTRAP, "--describe", "--topic", made, until="PartitionCount: 5")
    assert f"Topic: {made}\tTopicId: ID\tPartitionCount: 5\tReplicationFactor: 1\t" in described
    assert f"\tTopic: {made}\tPartition: 4\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: \n" in described
    assert "REASON" in topics("--alter", "--partitions", "2", code=1)
    assert topics("--describe", "--under-replicated-partitions") == ""
    assert topics("--describe", "--unavailable-partitions") == ""
    topics("--delete")
    listed = ("TopicCommand", *BOOTSTRAP, "--list", "--topic", made)
    wait_until(lambda: made not in both.end(*listed, address=both.kafka.address).output, "the topic is gone")
    assert made not in topics("--list")
    assert "REASON" in topics("--describe", code=1)


# Configs


def alter(both: Both, kind: str, name: str | None, *change: str, code: int = 0) -> str:
    entity = ("--entity-default",) if name is None else ("--entity-name", name)
    return both.run("ConfigCommand", *BOOTSTRAP, "--alter", "--entity-type", kind, *entity, *change, code=code)


def described(both: Both, kind: str, name: str | None, until: str, *options: str) -> str:
    entity = ("--entity-default",) if name is None else ("--entity-name", name)
    return both.settle("ConfigCommand", *BOOTSTRAP, "--describe", "--entity-type", kind, *entity, *options, until=until)


def test_config_command_on_topics(both: Both, made: str) -> None:
    changes = "cleanup.policy=[compact,delete],segment.bytes=2000000,min.insync.replicas=1"
    assert alter(both, "topics", made, "--add-config", changes) == f"Completed updating config for topic {made}.\n"
    own = described(both, "topics", made, "segment.bytes=2000000")
    assert (
        "  cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact" in own
    )
    alter(both, "topics", made, "--delete-config", "cleanup.policy,segment.bytes", "--add-config", "retention.ms=1000")
    own = described(both, "topics", made, "retention.ms=1000")
    assert "cleanup.policy" not in own
    alter(both, "topics", made, "--add-config", "retention.ms=soon", code=1)
    alter(both, "topics", made, "--add-config", "nobody.knows=1", code=1)
    # All 33, each with its synonyms, where both have the same static configs.
    everything = described(both, "topics", made, "retention.ms=1000", "--all")
    assert everything.count("sensitive=false") == 33


def test_config_command_on_brokers(both: Both) -> None:
    alter(both, "brokers", "1", "--add-config", "message.max.bytes=2000000")
    alter(both, "brokers", None, "--add-config", "log.cleaner.delete.retention.ms=99000")
    assert described(both, "brokers", "1", "message.max.bytes=2000000") == (
        "Dynamic configs for broker 1 are:\n"
        "  message.max.bytes=2000000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:message.max.bytes=2000000,"
        " DEFAULT_CONFIG:message.max.bytes=1048588}\n"
    )
    described(both, "brokers", None, "log.cleaner.delete.retention.ms=99000")
    alter(both, "brokers", "1", "--add-config", "node.id=7", code=1)
    alter(both, "brokers", "1", "--delete-config", "message.max.bytes")
    alter(both, "brokers", None, "--delete-config", "log.cleaner.delete.retention.ms")


def test_config_command_on_quotas_and_credentials(both: Both, topic: str) -> None:
    user = f"alice of {topic}"
    alter(both, "users", user, "--add-config", "producer_byte_rate=1000,consumer_byte_rate=2000")
    alter(both, "users", user, "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]")
    assert described(both, "users", user, "SCRAM") == (
        f"Quota configs for user-principal '{user}' are consumer_byte_rate=2000.0, producer_byte_rate=1000.0\n"
        f"SCRAM credential configs for user-principal '{user}' are SCRAM-SHA-256=iterations=8192\n"
    )
    alter(both, "users", user, "--delete-config", "SCRAM-SHA-256")
    alter(both, "users", user, "--delete-config", "producer_byte_rate")
    alter(both, "users", user, "--add-config", "consumer_byte_rate=-1", code=1)
    both.run(
        *("ConfigCommand", *BOOTSTRAP, "--alter", "--entity-type", "users", "--entity-name", user),
        *("--entity-type", "clients", "--entity-name", topic, "--add-config", "request_percentage=50"),
    )
    both_names = ("--entity-type", "users", "--entity-name", user, "--entity-type", "clients")
    said = both.settle("ConfigCommand", *BOOTSTRAP, "--describe", *both_names, until="request_percentage")
    assert said == f"Quota configs for user-principal '{user}', client-id '{topic}' are request_percentage=50.0\n"
    alter(both, "clients", topic, "--add-config", "controller_mutation_rate=10")
    described(both, "clients", topic, "controller_mutation_rate=10.0")
    alter(both, "ips", "127.0.0.9", "--add-config", "connection_creation_rate=50")
    described(both, "ips", "127.0.0.9", "connection_creation_rate=50.0")
    alter(both, "ips", "127.0.0.9", "--delete-config", "connection_creation_rate")


def test_config_command_on_loggers_groups_and_client_metrics(both: Both, topic: str) -> None:
    alter(both, "broker-loggers", "1", "--add-config", "root=WARN")
    for address in (both.ours.bootstrap, both.kafka.address):
        levels = both.tools.run(
            *("ConfigCommand", "--bootstrap-server", address),
            *("--describe", "--entity-type", "broker-loggers", "--entity-name", "1"),
        )
        assert "  root=WARN sensitive=false synonyms={}\n" in levels  # which loggers there are is each broker's own
    alter(both, "broker-loggers", "1", "--delete-config", "root", code=1)
    alter(both, "broker-loggers", "1", "--add-config", "root=INFO")
    alter(both, "groups", topic, "--add-config", "consumer.session.timeout.ms=46000")
    described(both, "groups", topic, "consumer.session.timeout.ms=46000")
    alter(both, "groups", topic, "--delete-config", "consumer.session.timeout.ms")
    alter(both, "client-metrics", topic, "--add-config", "interval.ms=5000,metrics=[a.b,c]")
    described(both, "client-metrics", topic, "interval.ms=5000")
    alter(both, "client-metrics", topic, "--delete-config", "interval.ms,metrics")


def test_client_metrics_command(both: Both, topic: str) -> None:
    metrics = ("ClientMetricsCommand", *BOOTSTRAP)
    wanted = ("--metrics", "org.apache.kafka.producer.", "--interval", "6000", "--match", "client_id=x")
    both.run(*metrics, "--alter", "--name", topic, *wanted)
    assert both.settle(*metrics, "--describe", "--name", topic, until="interval.ms=6000") == (
        f"Client metrics configs for {topic} are:\n"
        "  interval.ms=6000\n  match=client_id=x\n  metrics=org.apache.kafka.producer.\n"
    )
    both.run(*metrics, "--delete", "--name", topic)


# The cluster


def test_broker_api_versions_command(both: Both) -> None:
    def served(address: str) -> dict[str, tuple[int, int]]:
        said = both.tools.run("BrokerApiVersionsCommand", "--bootstrap-server", address)
        rows = re.findall(r"\t(\w+\(\d+\)): (\d+)(?: to (\d+))? \[usable: (\d+)\]", said)
        # What the Java client makes of it must be the highest: it may only go lower where it knows less.
        assert all(usable == (highest or lowest) for _, lowest, highest, usable in rows)
        return {name: (int(lowest), int(highest or lowest)) for name, lowest, highest, _ in rows}

    ours, theirs = served(both.ours.bootstrap), served(both.kafka.address)
    assert len(ours) > 30
    assert ours.keys() <= theirs.keys()
    for name, (lowest, highest) in ours.items():
        assert lowest == theirs[name][0], f"{name}: clients that are as old as Apache Kafka takes them must be served"
        assert highest <= theirs[name][1], name


def test_metadata_quorum_command(both: Both) -> None:
    numbers = {r"(?<=HighWatermark: )\s*\d+": "N", r"(?<=ClusterId: ).*": "ID", r"(?<=LeaderEpoch: )\s*\d+": "N"}
    voters = {r'"directoryId": "[^"]*", "endpoints": \[[^]]*\]': "WHERE"}
    status = both.run("MetadataQuorumCommand", *BOOTSTRAP, "describe", "--status", scrub=numbers | voters)
    assert re.search(r"^LeaderId: +1$", status, flags=re.MULTILINE)
    assert '[{"id": 1, WHERE}]' in status
    row = {r"(?m)^1\s+\S+\s+\d+\s+0\s+\d+\s+\d+\s+Leader\s*$": "THE LEADER"}
    assert "THE LEADER" in both.run("MetadataQuorumCommand", *BOOTSTRAP, "describe", "--replication", scrub=row)


def test_feature_command(both: Both) -> None:
    epoch = {r"(?<=Epoch: )\d+": "N"}
    features = both.run("FeatureCommand", *BOOTSTRAP, "describe", scrub=epoch)
    assert len(features.splitlines()) == 7
    tried = both.run("FeatureCommand", *BOOTSTRAP, "upgrade", "--feature", "group.version=1", "--dry-run")
    assert tried == "group.version can be upgraded to 1.\n"
    unknown = ("upgrade", "--feature", "nobody.knows=1", "--dry-run")
    reason = {r"(?<=Can not upgrade nobody.knows to 1\. ).*": "REASON"}
    assert "REASON" in both.run("FeatureCommand", *BOOTSTRAP, *unknown, code=1, scrub=reason)


def test_reassign_partitions_and_leader_election(both: Both, made: str, tmp_path: Path) -> None:
    rows = [{"topic": made, "partition": 0, "replicas": [1], "log_dirs": ["any"]}]
    (tmp_path / "moves.json").write_text(json.dumps({"version": 1, "partitions": rows}))
    (tmp_path / "topics.json").write_text(json.dumps({"version": 1, "topics": [{"topic": made}]}))
    reassign = ("ReassignPartitionsCommand", *BOOTSTRAP)
    moves = ("--reassignment-json-file", str(tmp_path / "moves.json"))
    topics = ("--topics-to-move-json-file", str(tmp_path / "topics.json"), "--broker-list", "1")
    assert '"replicas":[1],"log_dirs":["DATA"]' in both.run(*reassign, "--generate", *topics)
    assert f"Successfully started partition reassignment for {made}-0" in both.run(*reassign, "--execute", *moves)
    assert f"Reassignment of partition {made}-0 is completed." in both.run(*reassign, "--verify", *moves)
    assert both.run(*reassign, "--list") == "No partition reassignments found.\n"
    for kind in ("preferred", "unclean"):
        elect = ("LeaderElectionCommand", *BOOTSTRAP, "--election-type", kind, "--topic", made, "--partition", "0")
        assert both.run(*elect) == f"Valid replica already elected for partitions {made}-0\n"


def test_cluster_tool_and_acl_command(both: Both) -> None:
    random_id = {"(?<=Cluster ID: ).*": "ID"}
    assert both.run("ClusterTool", "cluster-id", *BOOTSTRAP, scrub=random_id) == "Cluster ID: ID\n"
    columns = {r"127\.0\.0\.1 +\d+ +": "HOST PORT "}
    assert "unfenced" in both.run("ClusterTool", "list-endpoints", *BOOTSTRAP, scrub=columns)
    both.run("ClusterTool", "unregister", *BOOTSTRAP, "--id", "7", code=1)
    assert "SecurityDisabledException" in both.run("AclCommand", *BOOTSTRAP, "--list", code=1)


def test_dump_log_segments_decodes_the_metadata_log(both: Both, made: str) -> None:
    files = sorted((both.ours.data / "__cluster_metadata-0").glob("*.log"))
    dump = both.tools.run("DumpLogSegments", "--cluster-metadata-decoder", "--files", ",".join(map(str, files)))
    assert complaints(dump) == []
    assert '"type":"REGISTER_BROKER_RECORD"' in dump
    assert f'"type":"TOPIC_RECORD","version":0,"data":{{"name":"{made}"' in dump
    assert dump.count('"type":"FEATURE_LEVEL_RECORD"') >= 6
