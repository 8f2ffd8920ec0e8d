"""`headrace cluster` and `headrace log dirs` against both brokers."""

from headrace import Broker
from tests.support.both_brokers import eventually, unique
from tests.support.command_line import done, headrace


def test_the_cluster_and_its_brokers(bootstrap: str) -> None:
    host, _, port = bootstrap.rpartition(":")
    shown = done("cluster", "describe", bootstrap=bootstrap).out.splitlines()
    assert shown[0].startswith("cluster ")
    assert shown[2].split()[1:] == [host, port, "-", "controller"]
    (cluster,) = done("cluster", "describe", "--json", bootstrap=bootstrap).objects
    (broker,) = cluster["brokers"]
    assert (broker["host"], broker["port"], broker["is_fenced"]) == (host, int(port), False)
    assert cluster["controller"] == broker["id"]


def test_the_quorum(bootstrap: str) -> None:
    (quorum,) = done("cluster", "quorum", "--json", bootstrap=bootstrap).objects
    assert [voter["id"] for voter in quorum["voters"]] == [quorum["leader_id"]]
    heading, _, row = done("cluster", "quorum", bootstrap=bootstrap).out.splitlines()
    assert heading.startswith(f"leader {quorum['leader_id']}, epoch {quorum['leader_epoch']}, high watermark ")
    assert row.split()[:2] == [str(quorum["leader_id"]), "leader"]


def test_features_and_apis(bootstrap: str) -> None:
    assert ["transaction.version", "2", "0-2"] in done("cluster", "features", bootstrap=bootstrap).rows
    features = {row["name"]: row for row in done("cluster", "features", "--json", bootstrap=bootstrap).objects}
    assert features["group.version"] == {"name": "group.version", "level": 1, "lowest": 0, "highest": 1}
    assert ["3", "Metadata", "0-13"] in done("cluster", "api-versions", bootstrap=bootstrap).rows
    rows = done("cluster", "api-versions", "--json", bootstrap=bootstrap).objects
    assert {"key": 3, "name": "Metadata", "lowest": 0, "highest": 13} in rows
    dry = done("cluster", "upgrade", "group.version=1", "--dry-run", bootstrap=bootstrap)
    assert dry.out == "group.version would be at level 1.\n"
    dry = done("cluster", "upgrade", "group.version=1", "--dry-run", "--json", bootstrap=bootstrap)
    assert dry.objects == [{"name": "group.version", "level": 1, "changed": False}]
    assert headrace("cluster", "upgrade", "group.version=99", bootstrap=bootstrap).code == 2
    assert headrace("cluster", "upgrade", "group.version=high", bootstrap=bootstrap).code == 2
    assert headrace("cluster", "api-versions", "--broker", "99", bootstrap=bootstrap).code == 2


def test_a_broker_that_does_not_exist_is_not_forgotten(bootstrap: str) -> None:
    assert headrace("cluster", "unregister", "4711", "--yes", bootstrap=bootstrap).code == 2


def test_a_broker_that_is_alive_is_not_forgotten(bootstrap: str) -> None:
    (cluster,) = done("cluster", "describe", "--json", bootstrap=bootstrap).objects
    alive = cluster["brokers"][0]["id"]
    refused = headrace("cluster", "unregister", str(alive), "--yes", bootstrap=bootstrap)
    assert (refused.code, refused.err.splitlines()[0]) == (2, f"headrace: Broker {alive} is alive.")
    assert done("cluster", "describe", "--json", bootstrap=bootstrap).objects == [cluster]


def test_a_broker_is_forgotten_by_force() -> None:
    with Broker() as broker:
        forced = done("cluster", "unregister", "1", "--yes", "--force", "--json", bootstrap=broker.address)
        assert forced.objects == [{"broker": 1, "unregistered": True}]


def test_log_directories(bootstrap: str) -> None:
    name = unique("large")
    done("topic", "create", name, "-p", "2", bootstrap=bootstrap)
    eventually(lambda: headrace("topic", "describe", name, bootstrap=bootstrap).code == 0)
    done("produce", name, "-p", "1", stdin=b"value\n", bootstrap=bootstrap)
    shown = done("log", "dirs", name, bootstrap=bootstrap).out.splitlines()
    assert shown[0].startswith("broker 1  /")
    assert [(row.split()[:2], row.split()[2] == "0") for row in shown[2:]] == [
        ([name, "0"], True),
        ([name, "1"], False),
    ]
    (directory,) = done("log", "dirs", f"{name}:1", "--broker", "1", "--json", bootstrap=bootstrap).objects
    assert directory["total_bytes"] > 0
    assert directory["error"] is None
    (partition,) = directory["partitions"]
    assert (partition["topic"], partition["partition"], partition["size_bytes"] > 0) == (name, 1, True)
