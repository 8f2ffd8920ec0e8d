"""What `headrace.testing` offers, and what it costs to import."""

import subprocess
import sys

import pytest

import headrace.testing


def printed(code: str) -> str:
    """By a process that has imported nothing yet."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_headrace_and_its_testing_package_load_nothing_by_themselves() -> None:
    code = "import sys, headrace.testing; print(sorted(name for name in sys.modules if name.startswith('headrace')))"
    assert printed(code) == "['headrace', 'headrace.testing']"


def test_importing_headrace_is_enough() -> None:
    assert printed("import headrace; print(headrace.testing.MovableClock(5))") == "<MovableClock at 5 ms>"


def test_what_the_package_offers_is_there() -> None:
    assert [getattr(headrace.testing, name) for name in headrace.testing.__all__]
    with pytest.raises(AttributeError, match=r"'headrace\.testing' has no attribute 'Clock'"):
        _ = headrace.testing.Clock
