from headrace.server.clock import MovableClock


def test_time_stands_still_until_it_is_moved() -> None:
    clock = MovableClock(1000)
    seen: list[str] = []
    clock.call_later(50, lambda: seen.append("b"))
    clock.call_later(10, lambda: seen.append("a"))
    clock.call_later(50, lambda: seen.append("c"))
    clock.move(49)
    assert (clock.now_ms(), seen) == (1049, ["a"])
    clock.move(1)
    assert (clock.now_ms(), seen) == (1050, ["a", "b", "c"])


def test_what_a_call_asks_for_happens_if_it_is_due_before_the_end() -> None:
    clock = MovableClock(0)
    seen: list[int] = []

    def tick() -> None:
        seen.append(clock.now_ms())
        clock.call_later(100, tick)

    clock.call_later(100, tick)
    clock.move(350)
    assert seen == [100, 200, 300]
    assert clock.now_ms() == 350


def test_a_cancelled_call_does_not_happen() -> None:
    clock = MovableClock(0)
    seen: list[str] = []
    timer = clock.call_later(5, lambda: seen.append("never"))
    timer.cancel()
    clock.move(10)
    assert not seen
