from hypothesis import given
from hypothesis import strategies as st

from headrace.coordinator.deadlines import Deadlines


def all_due(deadlines: Deadlines[str], now_ms: int) -> list[str]:
    due = []
    while (key := deadlines.pop_due(now_ms)) is not None:
        due.append(key)
    return due


def test_comes_when_it_is_due_and_once() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    assert deadlines.next_ms == 10
    assert deadlines.pop_due(9) is None
    assert all_due(deadlines, 10) == ["a"]
    assert deadlines.next_ms is None


def test_setting_it_again_moves_it_both_ways() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    deadlines.set("a", 30)
    assert deadlines.next_ms == 30
    deadlines.set("a", 20)
    assert deadlines.next_ms == 20
    assert all_due(deadlines, 40) == ["a"]


def test_a_cancelled_one_never_comes() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    deadlines.cancel("a")
    deadlines.cancel("unknown")
    assert all_due(deadlines, 100) == []


def test_many_heartbeats_leave_no_heap_behind() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for round_ in range(1_000):
        for key in range(10):
            deadlines.cancel(key)
            deadlines.set(key, round_ * 10 + 100)
    assert len(deadlines) == 10
    assert len(deadlines._heap) <= 200


@given(
    st.lists(
        st.tuples(st.sampled_from(["set", "cancel", "pop", "shift"]), st.sampled_from("abcd"), st.integers(0, 50)),
        max_size=200,
    )
)
def test_does_what_a_dict_would(actions: list[tuple[str, str, int]]) -> None:
    deadlines: Deadlines[str] = Deadlines()
    model: dict[str, int] = {}
    for action, key, at_ms in actions:
        if action == "set":
            deadlines.set(key, at_ms)
            model[key] = at_ms
        elif action == "cancel":
            deadlines.cancel(key)
            model.pop(key, None)
        elif action == "shift":
            deadlines.shift(at_ms - 25)
            model = {each: when + at_ms - 25 for each, when in model.items()}
        else:
            due = {each for each, when in model.items() if when <= at_ms}
            assert set(all_due(deadlines, at_ms)) == due
            model = {each: when for each, when in model.items() if each not in due}
        assert deadlines.next_ms == min(model.values(), default=None)
