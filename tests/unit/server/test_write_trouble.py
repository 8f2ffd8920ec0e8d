"""A disk without room is told once, whoever is concerned, and its end, too."""

from typing import cast

import pytest

from headrace.log.errors import StorageError
from headrace.log.log import Log
from headrace.server.write_trouble import WriteTrouble

NO_ROOM = StorageError("no room")


class ALog:
    """A log, as far as anybody asks here."""

    failure: StorageError | None = None


def a_log() -> Log:
    return cast("Log", ALog())


def test_it_is_told_once_however_many_logs_and_writes_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    trouble, logs = WriteTrouble(), [a_log() for _ in range(3)]
    for log in logs * 5:
        trouble.refused(log, NO_ROOM)
    assert caplog.messages == ["writes are refused, reads go on: no room"]
    for log in logs:
        assert trouble.is_on
        trouble.ended(log)
    assert not trouble.is_on
    assert caplog.messages[1:] == ["writes succeed again"]


def test_a_disk_that_takes_some_writes_and_refuses_others_is_not_told_again_and_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    now = 1000.0
    monkeypatch.setattr("headrace.server.write_trouble.time.monotonic", lambda: now)
    trouble, log = WriteTrouble(), a_log()
    for _ in range(5):
        trouble.refused(log, NO_ROOM)
        trouble.ended(log)
    assert len(caplog.messages) == 2
    trouble.refused(log, NO_ROOM)
    now += 60
    trouble.refused(log, NO_ROOM)  # it has lasted: now it is told
    assert caplog.messages[2:] == ["writes are refused, reads go on: no room"]


def test_a_log_that_has_failed_for_good_is_named_and_does_not_count(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    trouble, log = WriteTrouble(), a_log()
    trouble.refused(log, NO_ROOM)
    log.failure = StorageError("t-0 takes no more writes")
    for _ in range(3):
        trouble.refused(log, log.failure)
    assert not trouble.is_on
    assert caplog.messages.count("t-0 takes no more writes") == 1


def test_a_log_that_is_deleted_ends_its_trouble() -> None:
    trouble, log = WriteTrouble(), a_log()
    trouble.refused(log, NO_ROOM)
    trouble.gone(log)
    assert not trouble.is_on
