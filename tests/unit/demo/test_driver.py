"""The driver as processes: what is seen when it ends by itself, and that it is gone when killed; without Spark."""

import os
from pathlib import Path

import pytest

from headrace.demo.driver import Driver, DriverFailedError
from tests.support.waiting import wait_until


def has_failed(driver: Driver) -> bool:
    try:
        driver.check()
    except DriverFailedError:
        return True
    return False


@pytest.mark.slow
def test_a_driver_that_ends_by_itself_is_told_with_what_it_said_last(tmp_path: Path) -> None:
    driver = Driver("no master at all", "127.0.0.1:1", str(tmp_path), max_per_trigger=1)
    driver.start()
    wait_until(lambda: has_failed(driver), "its end")
    with pytest.raises(
        DriverFailedError, match=r"ended with exit code 2: (?s:.*)there is no Spark master 'no master at"
    ):
        driver.check()


@pytest.mark.slow
def test_a_driver_that_is_killed_is_gone_and_is_no_failure(tmp_path: Path) -> None:
    driver = Driver("local[2]", "127.0.0.1:1", str(tmp_path), max_per_trigger=1)
    driver.start()
    pid = driver.pid
    os.kill(pid, 0)
    driver.kill()
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)
    driver.check()
    driver.kill()
