"""`headrace config` against both brokers."""

import pytest

from tests.support.both_brokers import eventually, unique
from tests.support.command_line import done, headrace


def create(bootstrap: str) -> str:
    name = unique("topic")
    done("topic", "create", name, bootstrap=bootstrap)
    eventually(lambda: headrace("topic", "describe", name, bootstrap=bootstrap).code == 0)
    return name


def values(bootstrap: str, *arguments: str) -> dict[str, tuple[str, str]]:
    rows = done("config", "describe", *arguments, "--json", bootstrap=bootstrap).objects
    return {row["config"]: (row["value"], row["source"]) for row in rows}


def test_configs_of_a_topic_are_set_shown_and_taken_away(bootstrap: str) -> None:
    name = create(bootstrap)
    told = done("config", "set", "topic", name, "retention.ms=5000", "cleanup.policy=compact", bootstrap=bootstrap)
    assert told.out == f"Changed retention.ms, cleanup.policy of topic {name}.\n"
    eventually(lambda: values(bootstrap, "topic", name).get("retention.ms") == ("5000", "topic"))
    assert values(bootstrap, "topic", name)["cleanup.policy"] == ("compact", "topic")
    assert "segment.ms" not in values(bootstrap, "topic", name)
    assert values(bootstrap, "topic", name, "--all")["segment.ms"] == ("604800000", "default")
    done("config", "set", "topic", name, "cleanup.policy=delete", "--append", bootstrap=bootstrap)
    eventually(lambda: values(bootstrap, "topic", name)["cleanup.policy"][0] == "compact,delete")
    done("config", "set", "topic", name, "cleanup.policy=compact", "--subtract", bootstrap=bootstrap)
    eventually(lambda: values(bootstrap, "topic", name)["cleanup.policy"][0] == "delete")
    done("config", "unset", "topic", name, "retention.ms", "cleanup.policy", bootstrap=bootstrap)
    eventually(lambda: not {"retention.ms", "cleanup.policy"} & values(bootstrap, "topic", name).keys())


def test_a_table_shows_values_sources_and_words(bootstrap: str) -> None:
    name = create(bootstrap)
    shown = done("config", "describe", "topic", name, "-k", "segment.bytes", "--docs", bootstrap=bootstrap)
    heading, row = shown.out.splitlines()
    assert heading.split() == ["config", "value", "from", "for"]
    assert row.split()[:3] == ["segment.bytes", "1073741824", "default"]
    assert len(row.split()) > 6


def test_broker_and_cluster_configs(bootstrap: str) -> None:
    (broker,) = [
        str(each["id"]) for each in done("cluster", "describe", "--json", bootstrap=bootstrap).objects[0]["brokers"]
    ]
    assert values(bootstrap, "broker", broker, "-k", "node.id")["node.id"][0] == broker
    done("config", "set", "cluster", "log.cleaner.io.buffer.load.factor=0.8", bootstrap=bootstrap)
    eventually(lambda: values(bootstrap, "cluster").get("log.cleaner.io.buffer.load.factor") == ("0.8", "cluster"))
    done("config", "unset", "cluster", "log.cleaner.io.buffer.load.factor", bootstrap=bootstrap)
    assert headrace("config", "describe", "broker", "77", bootstrap=bootstrap).code == 2


def test_quotas_are_configs_of_users_clients_and_addresses(bootstrap: str) -> None:
    name = unique("importer")
    done("config", "set", "client", name, "producer_byte_rate=1024", "request_percentage=12.5", bootstrap=bootstrap)
    eventually(
        lambda: (
            done("config", "describe", "client", name, "--json", bootstrap=bootstrap).objects
            == [{"entity": {"client-id": name}, "quotas": {"producer_byte_rate": 1024.0, "request_percentage": 12.5}}]
        )
    )
    table = done("config", "describe", "client", bootstrap=bootstrap)
    assert ["client-id", name, "producer_byte_rate", "1024"] in table.rows
    done("config", "unset", "client", name, "producer_byte_rate", "request_percentage", bootstrap=bootstrap)
    eventually(lambda: done("config", "describe", "client", name, bootstrap=bootstrap).out == "")
    done("config", "set", "user", "default", "consumer_byte_rate=1e9", "--dry-run", bootstrap=bootstrap)
    assert headrace("config", "set", "client", name, "producer_byte_rate=fast", bootstrap=bootstrap).code == 2


def test_what_has_configs_is_listed(bootstrap: str) -> None:
    name = create(bootstrap)
    assert ["topic", name] in done("config", "list", bootstrap=bootstrap).rows
    assert {"kind": "topic", "name": name} in done("config", "list", "--json", bootstrap=bootstrap).objects


def test_nothing_changes_in_a_dry_run_and_a_wrong_value_is_refused(bootstrap: str) -> None:
    name = create(bootstrap)
    told = done("config", "set", "topic", name, "retention.ms=1", "--dry-run", bootstrap=bootstrap)
    assert told.out == f"Would change retention.ms of topic {name}.\n"
    assert "retention.ms" not in values(bootstrap, "topic", name)
    wrong = headrace("config", "set", "topic", name, "retention.ms=soon", bootstrap=bootstrap)
    assert (wrong.code, wrong.err.startswith(f"headrace: topic {name}: ")) == (2, True)


def test_changes_are_told_as_json(bootstrap: str) -> None:
    name = create(bootstrap)
    told = done("config", "set", "topic", name, "retention.ms=1", "segment.ms=1", "--json", bootstrap=bootstrap)
    assert told.objects == [{"kind": "topic", "name": name, "configs": ["retention.ms", "segment.ms"], "changed": True}]
    told = done("config", "unset", "client", name, "producer_byte_rate", "--dry-run", "--json", bootstrap=bootstrap)
    assert told.objects == [{"kind": "client", "name": name, "configs": ["producer_byte_rate"], "changed": False}]


def test_a_question_ends_as_one(headrace_bootstrap: str) -> None:
    name = create(headrace_bootstrap)
    wrong = headrace("config", "set", "topic", name, "retentionms=1", bootstrap=headrace_bootstrap)
    assert wrong.err.endswith("did you mean retention.ms?\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("describe", "topic"), "Which topic?"),
        (("describe", "cluster", "x"), "it takes no name"),
        (("set", "topic", "retention.ms=1"), "Its name comes before the configs"),
        (("set", "topic", "orders"), "Set what?"),
        (("set", "topic", "orders", "retention.ms"), "KEY=VALUE"),
        (("unset", "topic", "orders"), "Take what away?"),
        (("set", "topic", "o", "a=b", "--append", "--subtract"), "exclude one another"),
        (("describe", "topics", "o"), "Invalid value"),
        (("describe", "broker", "first"), "not the id of a broker"),
    ],
)
def test_what_is_missing_is_said(arguments: tuple[str, ...], message: str, headrace_bootstrap: str) -> None:
    ended = headrace("config", *arguments, bootstrap=headrace_bootstrap)
    assert (ended.code, message in ended.err) == (2, True), ended.err
