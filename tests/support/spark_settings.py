"""How tests start Spark."""

from typing import Final

# Compiled once and not optimised: tests run little and start often. Half the CPU time until the first results. Without
# its own word on it, such a JVM has 48 MB for what it has compiled, which a long run fills: then it throws away and
# compiles again.
JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"

QUICK_START: Final = {
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    # Nor is code generated for queries that see ten rows, which takes a third of the CPU time. What tests start as a
    # user would, the demo, commands and programs of their own, does generate it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # A worker that starts on a machine with other work may need longer than Spark's 15 seconds to call back.
    "spark.python.authenticate.socketTimeout": "2m",
}
