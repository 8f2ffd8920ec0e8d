"""Every config that is declared is read by something, or said to have no effect."""

import re
from pathlib import Path

import headrace
from headrace.cluster.configs import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    check_broker_file,
)
from headrace.cluster.unserved_configs import UNSERVED, documentation_of

TABLES = (TOPIC_CONFIGS, GROUP_CONFIGS, BROKER_CONFIGS, CLIENT_METRICS_CONFIGS)
# Names that the code puts together: windows of quotas, and the bounds that brokers set to the configs of groups.
PUT_TOGETHER = re.compile(
    r"(controller\.)?quota\.window\..*"
    r"|group\.(consumer|share|streams)\.(min|max)\..*\.(interval|timeout|duration)\.ms"
    r"|group\.share\.(min|max)\.(delivery|partition)\..*"
)


def names_that_are_read() -> set[str]:
    """Those that stand in the code outside of the declarations, and those from which topics and groups inherit."""
    root = Path(headrace.__file__).parent
    declarations = set((root / "cluster").glob("*configs.py"))
    code = "\n".join(path.read_text() for path in root.rglob("*.py") if path not in declarations)
    read = {name for table in TABLES for name in table if f'"{name}"' in code or PUT_TOGETHER.fullmatch(name)}
    inherited = {each.name for table in TABLES for name in read & set(table) for each in table[name].synonyms}
    return read | inherited


def test_a_config_is_read_or_said_to_have_no_effect() -> None:
    declared = {name for table in TABLES for name in table}
    assert sorted(declared - names_that_are_read() - set(UNSERVED)) == []
    assert sorted(set(UNSERVED) & names_that_are_read()) == []
    assert sorted(set(UNSERVED) - declared) == []


def test_who_sets_one_without_effect_at_the_start_is_told() -> None:
    check = check_broker_file({"queued.max.requests": "7", "num.replica.fetchers": "1", "num.partitions": "3"})
    assert check.problems == []
    assert check.notices == [f"queued.max.requests has no effect yet: {UNSERVED['queued.max.requests']}"]


def test_the_documentation_of_one_without_effect_says_so() -> None:
    assert documentation_of(BROKER_CONFIGS["queued.max.requests"]).endswith(
        f"has no effect: {UNSERVED['queued.max.requests']}."
    )
    assert documentation_of(BROKER_CONFIGS["num.partitions"]) == BROKER_CONFIGS["num.partitions"].doc
