"""Each example runs as a user would run it, and says what it should."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
pytestmark = pytest.mark.slow

IN_PROCESS = """\
offset 0: alice -> order 0
offset 1: alice -> order 1
offset 2: alice -> order 2
The broker has stopped, and its data is gone.
"""

FAULTS = """\
10 orders sent, 0 failed; refused 3 times, dropped 1 time
10 orders are in the topic, 10 different ones, in order: True
"""

MOVED_CLOCK = """\
now: 5 orders, and the next one gets offset 5
after 6 days: 5 orders, and the next one gets offset 5
after 7 days and an hour: 0 orders, and the next one gets offset 5
"""

CONFIGS = """\
cleanup.policy = compact,delete
segment.ms = 60000
max.message.bytes = 2000000
retention.ms = 86400000
num.partitons is not a broker config; did you mean num.partitions?
"""

ADMIN = """\
cleanup.policy = delete,compact, set at the topic
retention.ms = 604800000, the default
orders has 4 partitions
billing has read 0 of 0 records of orders-0
created ['payments'], but not ['orders']: There is a topic 'orders' already.
There is no topic 'invoices'.
"""

AT_MOST_ONCE = """\
did order 0
the power is gone; it starts again
did order 2
did order 3
"""

AT_LEAST_ONCE = """\
did order 0
did order 1
the power is gone; it starts again
did order 1
did order 2
did order 3
"""

EXACTLY_ONCE = """\
the power is gone; it starts again
read_uncommitted: bill for order 0, bill for order 1, bill for order 1, bill for order 2, bill for order 3
read_committed: bill for order 0, bill for order 1, bill for order 2, bill for order 3
"""

IN_ORDER = """\
alice: order 0, order 3, order 6
bob: order 1, order 4, order 7
carol: order 2, order 5, order 8
committed: 9
"""

EXPLAIN = """\
app sales: 2 queries

query source-1: append, no state
  source-1       orders, value Json(id bigint, country string, amount double)
                 -> stream (id bigint, country string, amount double)
  filter-1       where amount * 100 > 10000  <- source-1
  select-1       id, cents = amount * 100  <- filter-1
                 -> stream (id bigint, cents)
  sink-1         to big-orders  <- select-1
  source-1.dead  to sales.dead, what cannot be decoded  <- source-1

query minutes: append, state of minutes
  source-1  orders, value Json(id bigint, country string, amount double)
            -> stream (id bigint, country string, amount double)
  minutes   by country, tumbling 1m, grace 30s: n = count(*); emits final  <- source-1
            -> table (country string, window_start timestamp, window_end timestamp, n bigint) by country, window_start, window_end
  sink-2    to sales-per-minute  <- minutes

filter: there is no column 'amuont'. Did you mean 'amount'?
"""  # noqa: E501

LOG_TOUR = "Append", "Read", "Retry", "Abort", "Crash", "Compact", "Files", "The tour took"


def run(directory: Path, *arguments: str) -> str:
    """In a directory of its own, so that nothing depends on where it is started. Its output; no error may be in it."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("in_process", IN_PROCESS),
        ("faults", FAULTS),
        ("moved_clock", MOVED_CLOCK),
        ("configs", CONFIGS),
        ("admin", ADMIN),
        ("at_most_once", AT_MOST_ONCE),
        ("at_least_once", AT_LEAST_ONCE),
        ("exactly_once", EXACTLY_ONCE),
        ("in_order", IN_ORDER),
        ("explain_a_pipeline", EXPLAIN),
    ],
)
def test_programs_print_what_they_should(name: str, output: str, tmp_path: Path) -> None:
    assert run(tmp_path, str(EXAMPLES / f"{name}.py")) == output
    assert not list(tmp_path.iterdir()), "it leaves nothing behind"


def test_the_example_of_tests_passes(tmp_path: Path) -> None:
    options = "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}"
    assert "2 passed" in run(tmp_path, "-m", "pytest", *options, str(EXAMPLES / "test_with_a_broker.py"))


def test_the_tour_of_the_log_shows_every_chapter(tmp_path: Path) -> None:
    output = run(tmp_path, str(EXAMPLES / "log_tour.py"))
    places = [output.index(chapter) for chapter in LOG_TOUR]
    assert places == sorted(places)


def test_every_example_is_listed_and_tested() -> None:
    examples = {path.name for path in EXAMPLES.glob("*.py")}
    pipelines = {f"pipelines/{path.name}" for path in EXAMPLES.glob("pipelines/*.py")}
    listed = (EXAMPLES / "README.md").read_text()
    assert not [name for name in examples | pipelines if f"[{name}]({name})" not in listed]
    tested = {
        "in_process.py",
        "faults.py",
        "moved_clock.py",
        "configs.py",
        "admin.py",
        "at_most_once.py",
        "at_least_once.py",
        "exactly_once.py",
        "in_order.py",
        "explain_a_pipeline.py",
        "sales_pipeline.py",  # with Spark: tests/spark/test_streams_example.py
        "test_with_a_broker.py",
        "log_tour.py",
    }
    assert examples == tested
