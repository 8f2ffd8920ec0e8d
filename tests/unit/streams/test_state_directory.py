import subprocess
import sys
from pathlib import Path

import pytest

from headrace.streams import App
from headrace.streams.errors import CannotRunError, PlanError
from headrace.streams.state_directory import (
    AlreadyRunningError,
    RunLock,
    checkpoints,
    is_running,
    read_json,
    state_path,
    write_json,
)

HOLD = """
import sys
from headrace.streams.state_directory import RunLock
lock = RunLock(sys.argv[1], app="sales")
print("held", flush=True)
sys.stdin.read()
"""


def test_an_app_runs_for_as_long_as_somebody_holds_its_lock(tmp_path: Path) -> None:
    directory = str(tmp_path / "state")
    assert not is_running(directory)
    with RunLock(directory, app="sales"):
        assert is_running(directory)
        with pytest.raises(AlreadyRunningError, match=r"app 'sales' runs already, in process \d+, with its state in"):
            RunLock(directory, app="sales")
    assert not is_running(directory)
    RunLock(directory, app="sales").release()


def test_who_only_asks_does_not_keep_others_from_running(tmp_path: Path) -> None:
    RunLock(str(tmp_path), app="sales").release()
    assert not is_running(str(tmp_path))
    with RunLock(str(tmp_path), app="sales"):
        pass


def test_a_process_that_is_killed_has_let_go_of_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert is_running(str(tmp_path))
        with pytest.raises(AlreadyRunningError, match=f"in process {process.pid}"):
            RunLock(str(tmp_path), app="sales")
        process.kill()
        process.wait()
    assert not is_running(str(tmp_path))


def test_state_is_a_path_or_a_url_of_a_file(tmp_path: Path) -> None:
    assert state_path(tmp_path) == str(tmp_path)
    assert state_path("some/where:else") == "some/where:else"
    assert state_path("file:///mnt/all%20apps/sales") == "/mnt/all apps/sales"
    assert state_path("file:/mnt/sales") == state_path("file://localhost/mnt/sales") == "/mnt/sales"


@pytest.mark.parametrize("elsewhere", ["hdfs://host/state", "s3a://bucket/state", "hdfs:/state", "file://host/state"])
def test_state_that_is_in_no_directory_is_refused_where_it_is_written(elsewhere: str) -> None:
    with pytest.raises(CannotRunError, match=r"state is .* one that the driver and all workers see"):
        App("sales", "nowhere:1", state=elsewhere)


def test_checkpoints_are_the_directories_that_are_not_our_own(tmp_path: Path) -> None:
    for name in ("users", "source-1", "@reset"):
        (tmp_path / name).mkdir()
    (tmp_path / "plan.json").write_text("{}")
    assert checkpoints(str(tmp_path)) == ("source-1", "users")
    assert checkpoints(str(tmp_path / "nothing")) == ()


def test_what_is_written_is_read_again_and_what_is_not_there_is_none(tmp_path: Path) -> None:
    assert read_json(str(tmp_path), "@start.json") is None
    write_json(str(tmp_path), "@start.json", {"queries": {}})
    assert read_json(str(tmp_path), "@start.json") == {"queries": {}}
    (tmp_path / "@start.json").write_text("{")
    with pytest.raises(PlanError, match=r"@start\.json cannot be read"):
        read_json(str(tmp_path), "@start.json")
