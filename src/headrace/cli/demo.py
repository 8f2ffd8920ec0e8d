"""`headrace demo`: orders, a Spark pipeline over them that is killed and comes back, and every number right."""

import click


@click.command("demo")
@click.option("--orders", type=click.IntRange(min=100), default=50_000, show_default=True, help="How many are sent.")
@click.option("--seed", type=int, default=1, show_default=True, help="The same seed gives the same orders.")
@click.option(
    "--kills", type=click.IntRange(min=0, max=10), default=1, show_default=True, help="How often the driver is killed."
)
@click.option("--master", metavar="URL", default="local[*]", show_default=True, help="Where Spark runs.")
@click.option("--keep", is_flag=True, help="Leave everything running at the end, until Ctrl-C.")
def command(orders: int, seed: int, kills: int, keep: bool, master: str) -> None:
    """See it all at work: a broker, orders that come in, and a Spark pipeline that makes revenue of them, exactly once.

    Its driver is killed with -9 in the middle. The results stand beside the truth at the end, and the exit code is 1 if
    a number differs.
    """
    import os  # here and below: `headrace --help` looks at every noun
    import signal
    import sys
    from importlib.util import find_spec

    from headrace.cli.output import Complaint, Finding

    for module in ("pyspark", "pyarrow"):
        if find_spec(module) is None:
            raise Complaint(f"the demo needs {module}, which is not installed.", hint="pip install 'headrace[spark]'")
    from rich.console import Console

    from headrace.demo.driver import DriverFailedError
    from headrace.demo.run import Settings, run
    from headrace.demo.view import View
    from headrace.spark.java import NoJavaError, find_java
    from headrace.spark.master import check_master

    try:
        check_master(master)
        find_java(os.environ)
    except (ValueError, ConnectionError, NoJavaError) as error:
        raise Complaint(str(error)) from None
    for ending in (signal.SIGTERM, signal.SIGHUP):  # the driver goes with it, as by Ctrl-C; a terminal may be closed
        signal.signal(ending, lambda number, _: sys.exit(128 + number))
    try:
        right = run(Settings(orders, seed, kills, keep, master), View(Console(highlight=False)))
    except (DriverFailedError, TimeoutError) as error:
        raise Finding(str(error)) from None
    if not right:
        raise Finding("the results are not what they must be.")
