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


def test_a_leap_makes_each_call_once_at_its_time() -> None:
    clock = MovableClock(0)
    seen: list[tuple[str, int]] = []

    def tick() -> None:
        seen.append(("tick", clock.now_ms()))
        clock.call_later(100, tick)

    clock.call_later(100, tick)
    clock.call_later(250, lambda: seen.append(("once", clock.now_ms())))
    assert clock.next_ms == 100
    clock.leap(1000)
    assert seen == [("tick", 100), ("once", 250)]
    assert (clock.now_ms(), clock.next_ms) == (1000, 200)
    clock.leap(1001)
    assert seen[2:] == [("tick", 1000)]
    assert clock.next_ms == 1100


def test_a_call_that_an_earlier_one_of_the_leap_cancels_does_not_happen() -> None:
    clock = MovableClock(0)
    seen: list[str] = []
    later = clock.call_later(2, lambda: seen.append("never"))
    clock.call_later(1, later.cancel)
    clock.leap(5)
    assert (seen, clock.next_ms) == ([], None)
