"""The benchmark of groups runs, without a peer: commits, transactions, rebalances and many groups."""

from dataclasses import replace

import pytest

from benchmarks.beside_kafka.competitors import competitors
from benchmarks.beside_kafka.contest import QUICK
from benchmarks.groups import SETTINGS, Effort, measure

TINY = Effort(replace(QUICK, seconds=0.2, warm_up_seconds=0.2), joins=2, groups=50, starts=1)


@pytest.mark.slow
def test_every_figure_is_measured_and_has_its_goal() -> None:
    headrace = next(competitors(SETTINGS))
    figures = measure(TINY, [headrace])
    assert [(figure.name, figure.goal, figure.at_most) for figure in figures] == [
        ("OffsetCommit, 16 connections x 5", 3.0, False),
        (
            "transactions of 10 records, one producer; Kafka with add.partitions.to.txn.retry.backoff.ms=1",
            1.5,
            False,
        ),
        ("second member's join until both own partitions, classic", 0.7, True),
        ("second member's join until both own partitions, consumer", 0.7, True),
        ("50 groups with 3 offsets each: memory", None, True),
        ("50 groups with 3 offsets each: start until loaded", None, True),
    ]
    assert all(figure.value > 0 for figure in figures)
