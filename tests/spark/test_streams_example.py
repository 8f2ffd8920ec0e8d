import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "sales_pipeline.py"

OUTPUT = """\
big-orders: {"id":1,"country":"FR","amount":250.0}, {"id":2,"country":"DE","amount":150.0}
sales: {"country":"DE","n":3,"total":220.0}, {"country":"FR","n":1,"total":250.0}
sales.dead: what is this?
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_example_of_a_pipeline_prints_what_it_should_and_nothing_else(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLE)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (done.stdout, done.stderr) == (OUTPUT, "")
    assert not list(tmp_path.iterdir()), "it leaves nothing behind"
