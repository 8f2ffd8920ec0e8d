"""What is loaded: by the processes that Spark starts, of which there are many; and what is said if it is not there."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["batch_source", "stream_source", "batch_sink", "stream_sink"])
def test_processes_that_plan_do_not_load_pandas(module: str) -> None:
    program = f"import sys, headrace.spark.{module}; assert 'pandas' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("call", "missing", "extra"),
    [
        ("headrace.spark.session('app')", "pyspark", "spark"),
        ("headrace.arrow.read('topic', 'localhost:9092')", "pyarrow", "arrow"),
    ],
)
def test_who_has_not_installed_an_extra_is_told_how(call: str, missing: str, extra: str) -> None:
    without = f"import sys; sys.modules[{missing!r}] = None\nimport headrace, headrace.spark\n{call}"
    ended = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)
    module = f"headrace.{extra}"
    said = f"{module} needs {missing}, which is not installed: pip install 'headrace[{extra}]'"
    assert ended.stderr.endswith(f"ModuleNotFoundError: {said}\n")
