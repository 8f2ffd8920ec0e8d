"""Lines that clients cause are written seldom, and none is forgotten."""

import logging

import pytest

from headrace.server.seldom import Seldom

_LOG = logging.getLogger(__name__)


def test_of_many_lines_the_first_is_written(caplog: pytest.LogCaptureFixture) -> None:
    seldom = Seldom(_LOG, interval_seconds=3600)
    for number in range(5):
        seldom.error(f"line {number}")
    assert caplog.messages == ["line 0"]


def test_the_next_line_says_how_many_were_left_out(caplog: pytest.LogCaptureFixture) -> None:
    seldom = Seldom(_LOG, interval_seconds=3600)
    for number in range(3):
        seldom.error(f"line {number}")
    seldom._next = 0.0
    seldom.error("line 3")
    assert caplog.messages == ["line 0", "line 3 (2 more of this kind before)"]
