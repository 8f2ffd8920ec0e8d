"""Masters, looked at before Spark does."""

import os
import socket

import pytest

from headrace.spark.master import check_master, local_cores


@pytest.mark.parametrize(
    "master", ["local", "local[2]", "local[*]", "local[2,4]", "local[*, 3]", "yarn", "k8s://https://host:443"]
)
def test_every_form_of_sparks_is_accepted(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize(
    "master", ["", "locl[2]", "local[0]", "local[2", "local[two]", "spark://host", "spark:/host:7077", "host:7077"]
)
def test_any_other_is_an_error_that_shows_the_forms(master: str) -> None:
    with pytest.raises(ValueError, match=r"there is no Spark master .*; write local\[\*\] or local\[4\]"):
        check_master(master)


def test_a_cluster_whose_master_does_not_answer_is_an_error_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_master(f"spark://127.0.0.1:{port}")
        check_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    with pytest.raises(ConnectionError, match=rf"no Spark master answers at spark://127.0.0.1:{port}; is it running"):
        check_master(f"spark://127.0.0.1:{port}")
    with pytest.raises(ConnectionError):
        check_master("spark://127.0.0.1:70000")


def test_the_cores_of_a_local_master_are_known() -> None:
    assert local_cores("local") == 1
    assert local_cores("local[3]") == 3
    assert local_cores("local[3,4]") == 3
    assert local_cores("local[*]") == len(os.sched_getaffinity(0))
    assert local_cores("yarn") is None
    assert local_cores("spark://host:7077") is None
