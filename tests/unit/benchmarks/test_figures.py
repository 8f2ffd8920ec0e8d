"""A figure tells whether its goal was met, by its value or by its ratio to a peer's."""

import pytest

from benchmarks.__main__ import peer_column
from benchmarks.figures import Figure


@pytest.mark.parametrize(
    ("value", "at_most", "is_met"), [(1.0, True, True), (1.1, True, False), (1.0, False, True), (0.9, False, False)]
)
def test_a_goal_is_a_bound_on_the_value(value: float, at_most: bool, is_met: bool) -> None:
    assert Figure("f", value, "s", goal=1.0, at_most=at_most).met is is_met


def test_a_figure_without_a_goal_is_neither_met_nor_missed() -> None:
    assert Figure("f", 1.0, "s").met is None


def test_the_ratio_is_the_median_of_the_rounds_ratios_and_not_the_ratio_of_the_medians() -> None:
    # The machine was three times as fast in the second round, and slow again before the peer's third turn was over.
    figure = Figure.beside("f", "1/s", [100.0, 300.0, 300.0], [50.0, 150.0, 50.0])
    assert (figure.value, figure.peer, figure.ratio) == (300.0, 50.0, 2.0)


def test_a_goal_for_the_ratio_does_not_look_at_the_value() -> None:
    assert Figure.beside("f", "1/s", [10.0], [2.0], goal=5.0).met is True
    assert Figure.beside("f", "1/s", [9.9], [2.0], goal=5.0).met is False
    assert Figure.beside("f", "us", [1.0], [2.0], goal=0.4, at_most=True).met is False


def test_a_goal_for_the_value_does_not_look_at_the_ratio() -> None:
    assert Figure.beside("f", "1/s", [8000.0], [9000.0], goal=8000, is_ratio_goal=False).met is True


def test_without_a_peer_a_goal_for_the_ratio_stays_open_and_one_for_the_value_does_not() -> None:
    assert Figure.beside("f", "1/s", [10.0], [], goal=5.0).met is None
    assert Figure.beside("f", "1/s", [10.0], [], goal=50.0, is_ratio_goal=False).met is False


def test_a_table_of_one_peer_is_headed_by_it_and_one_of_several_names_them_in_each_row() -> None:
    kafka = Figure.beside("f", "1/s", [10.0], [2.0])
    other = Figure.beside("f", "1/s", [10.0], [2.0], peer_name="aiokafka")
    alone = Figure("f", 1.0, "s")
    assert peer_column([kafka, alone]) == ("Apache Kafka", ["2", ""])
    assert peer_column([kafka, other]) == ("peer", ["Apache Kafka 2", "aiokafka 2"])
