"""The process that Spark forks its Python workers from: here it has loaded what each of them would load for itself.

    python -m tests.support.spark_daemon pyspark.worker

Spark's own loads nothing, since a process with threads must not be forked, and some of these modules start one. Told
as below they do not, and that is checked. A worker then costs a second of CPU time less.
"""

import os
import sys
from importlib import import_module
from typing import Final

from pyspark.daemon import manager

_NO_THREADS: Final = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
_LOADED: Final = (
    "pandas",
    "pytest",  # by those which are sent a function of a test
    "pyarrow.compute",
    "pyspark.worker",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "headrace.spark.datasource",
    "headrace.streams.compiler.running",
)


def main() -> None:
    os.environ.update(_NO_THREADS)
    for name in _LOADED:
        import_module(name)
    threads = os.listdir("/proc/self/task") if sys.platform == "linux" else [""]
    assert len(threads) == 1, "what was loaded has started a thread"
    manager()


if __name__ == "__main__":
    main()
