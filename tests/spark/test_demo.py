"""`headrace demo`, small, as a user would run it: killed in the middle it is right, and it ends when it is told to."""

import os
import re
import shutil
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import headrace
from headrace.demo import topics
from tests.support.demo_process import address_in, demo, forge_order
from tests.support.no_java import environment_without_java
from tests.support.spark_settings import without_generated_code

SECONDS = 1400


def up_to(output: Iterable[str], start: str) -> Iterator[str]:
    """Its lines up to the first that starts so; all of them if none does."""
    for line in output:
        yield line
        if line.startswith(start):
            return


def environment_of_an_installation(directory: Path) -> dict[str, str]:
    """Headrace as pip puts it onto a machine: not where it is worked at, and without a Java to be found."""
    packages = directory / "site-packages"
    shutil.copytree(Path(headrace.__file__).parent, packages / "headrace")
    return {**environment_without_java(directory), "PYTHONPATH": str(packages)}


@pytest.mark.timeout(SECONDS)
def test_on_a_machine_without_java_a_driver_that_is_killed_loses_and_doubles_nothing_and_keep_goes_on(
    tmp_path: Path,
) -> None:
    """One run for both: with --keep everything goes on after the results, until it is interrupted."""
    with demo("--orders", "3000", "--keep", env=environment_of_an_installation(tmp_path)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        lines = list(up_to(process.stdout, "Ctrl-C"))
        said = "".join(lines)
        assert lines[-1].startswith("Ctrl-C"), said + process.stderr.read()
        assert "kill -9" in said
        assert "the pipeline starts again" in said
        assert "Equal: nothing lost, nothing doubled." in said
        assert said.count(" equal ") == len([line for line in lines if line.startswith("│")]), "every line of the table"
        assert "DIFFERENT" not in said

        address = address_in(lines)
        (driver,) = [int(found[1]) for line in lines if (found := re.search(r"the pipeline as process (\d+)", line))]
        os.kill(driver, 0)
        with headrace.Admin(address) as admin:
            assert admin.list_group_offsets(topics.ORDERS_GROUP)
        assert f"headrace group describe {topics.ORDERS_GROUP} --bootstrap {address}" in said
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
        assert not process.stderr.read()
    with pytest.raises(ProcessLookupError):
        os.kill(driver, 0)


@pytest.mark.timeout(SECONDS)
def test_an_order_that_was_not_in_the_input_is_found_and_where_spark_runs_is_told_to_the_driver() -> None:
    """The order is all that is different, and by one cent: everything else is as it must be, each order once."""
    with demo("--orders", "500", "--kills", "0", "--master", "local[1]", env=without_generated_code()) as process:
        assert process.stdout is not None
        country = forge_order(address_in(process.stdout))
        driver = driver_in(process.stdout)
        assert b"--master\0local[1]\0" in Path(f"/proc/{driver}/cmdline").read_bytes()
        output, errors = process.communicate(timeout=SECONDS - 120)
    assert process.returncode == 1, output + errors
    assert errors == "headrace: the results are not what they must be.\n"
    assert "kill -9" not in output
    assert "Not equal" in output
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in output.splitlines() if "DIFFERENT" in line]
    (revenue, wanted_cents, found_cents, _), (orders, wanted, found, _), doubled = lines
    assert revenue.split(",")[0] == country
    assert (orders, number(found) - number(wanted)) == ("orders that count", 1)
    assert round(100 * (number(found_cents) - number(wanted_cents))) == 1
    assert doubled == ["doubled", "0", "1", "DIFFERENT"]


def number(cell: str) -> float:
    return float(cell.replace(",", ""))


def driver_in(output: Iterable[str]) -> int:
    """The process of the first driver."""
    return next(int(found[1]) for line in output if (found := re.search(r"starts, process (\d+)", line)))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_demo_that_is_told_to_end_takes_its_driver_with_it(number: signal.Signals) -> None:
    with demo("--orders", "600") as process:
        assert process.stdout is not None
        driver = driver_in(process.stdout)
        os.kill(driver, 0)
        process.send_signal(number)
        assert process.wait(120) == 128 + number
    with pytest.raises(ProcessLookupError):
        os.kill(driver, 0)
