"""How tests start Spark."""

import os
import sys
from collections.abc import Mapping
from typing import Final

# Compiled once and not optimised: tests run little and start often. Half the CPU time until the first results. Without
# its own word on it, such a JVM has 48 MB for what it has compiled, which a long run fills: then it throws away and
# compiles again.
JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"

# Nor is code generated for queries that see ten rows, which takes a third of the CPU time.
_NO_CODE: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}

# For sessions that tests make themselves. What they start as a user would, the demo and programs of their own, does
# generate code, save where `without_generated_code` says otherwise.
QUICK_START: Final = _NO_CODE | {
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    # A worker that starts on a machine with other work may need longer than Spark's 15 seconds to call back.
    "spark.python.authenticate.socketTimeout": "2m",
}

# For the session that tests share, too. Hadoop forks a `chmod` for each file of a checkpoint and for the file of its
# checksums, twelve for a micro-batch with state. Without a word on it Java starts a program of its own for each fork.
_FORKED_AT_ONCE: Final = " -Djdk.lang.Process.launchMechanism=VFORK" if sys.platform == "linux" else ""
SHARED: Final = QUICK_START | {"spark.driver.extraJavaOptions": JAVA_OPTIONS + _FORKED_AT_ONCE}


def with_plain_python() -> dict[str, str]:
    """The environment of a program whose Spark starts Python as it does for users: see `forked_python.py`."""
    return {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}


def without_generated_code(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """This environment, for a program that tests start as a user would, to see something else than how queries run.

    Not by a spark-defaults.conf: its directory would come first on the class path, where the archive of Spark's classes
    does not fit any more, without a word, and a driver would take seconds of CPU time more.
    """
    settings = " ".join(f"-D{name}={value}" for name, value in _NO_CODE.items())
    return {**environment, "SPARK_SUBMIT_OPTS": f"{JAVA_OPTIONS} {settings}"}
