"""How tests start Spark."""

from typing import Final

QUICK_START: Final = {
    # Compiled once and not optimised: tests run little and start often. Half the CPU time until the first results.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # A worker that starts on a machine with other work may need longer than Spark's 15 seconds to call back.
    "spark.python.authenticate.socketTimeout": "2m",
}
