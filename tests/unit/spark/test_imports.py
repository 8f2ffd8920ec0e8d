"""What the processes that Spark starts for a query load: there are many of them, and each loads it anew."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["batch_source", "stream_source", "batch_sink", "stream_sink"])
def test_processes_that_plan_do_not_load_pandas(module: str) -> None:
    program = f"import sys, headrace.spark.{module}; assert 'pandas' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
