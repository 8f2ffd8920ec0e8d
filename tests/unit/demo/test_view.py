"""What the demo shows, in a terminal and without one."""

import io

from rich.console import Console

from headrace.demo.comparison import Line
from headrace.demo.view import Progress, View, money, picture, progress_line

PROGRESS = Progress(1_000, sent=800, checked=600, lag=207, cents={"France": 123_456, "Brazil": 5})


def rendered(what: object) -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def view_into(*, terminal: bool) -> tuple[View, io.StringIO]:
    file = io.StringIO()
    return View(Console(file=file, force_terminal=terminal, width=100, color_system=None)), file


def test_a_line_says_how_far_it_is() -> None:
    assert progress_line(PROGRESS) == "800 of 1,000 orders sent, 600 through the pipeline, lag 207"


def test_the_picture_has_every_number() -> None:
    shown = rendered(picture(PROGRESS))
    for expected in ("800", "600", "207", "France", "1,234.56", "Brazil", "0.05"):
        assert expected in shown


def test_without_a_terminal_lines_are_printed_now_and_then() -> None:
    view, file = view_into(terminal=False)
    with view.live():
        view.show(PROGRESS)
        view.show(PROGRESS)
    assert file.getvalue().count("800 of 1,000 orders sent") == 1
    assert "\x1b" not in file.getvalue()


def test_in_a_terminal_the_picture_is_drawn_and_gone_at_the_end() -> None:
    view, file = view_into(terminal=True)
    with view.live():
        view.show(PROGRESS)
        view.say("something happened")
    shown = file.getvalue()
    assert "through the pipeline" in shown
    assert "something happened" in shown
    assert "\x1b[2K" in shown, "the lines of the picture are erased"


def test_the_result_marks_what_differs_and_says_so() -> None:
    right = Line("France", 100, 100, is_equal=True, is_money=True)
    view, file = view_into(terminal=False)
    view.result([right])
    assert "Equal: nothing lost, nothing doubled." in file.getvalue()
    assert "DIFFERENT" not in file.getvalue()
    view, file = view_into(terminal=False)
    view.result([right, Line("lost", 0, 1, is_equal=False)])
    assert "Not equal" in file.getvalue()
    assert [line for line in file.getvalue().splitlines() if "lost" in line and "DIFFERENT" in line]


def test_money_is_shown_with_two_places() -> None:
    assert money(123_456_789) == "1,234,567.89"
    assert money(0) == "0.00"
