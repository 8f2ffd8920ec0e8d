"""`headrace log`: look into the files of a log, and where brokers keep them."""

from typing import Any, Final

import click

from headrace.cli.connect import bootstrap_option, complete_topics, json_option, timeout_option

DECODERS: Final = ("auto", "metadata", "offsets", "transactions", "share", "none")


@click.group("log")
def command() -> None:
    """Look into the files of a log, and where brokers keep them."""


@command.command()
@click.argument("names", nargs=-1, metavar="[TOPIC[:PARTITION]…]", shell_complete=complete_topics)
@click.option("--broker", "brokers", type=int, multiple=True, metavar="ID", help="Only of this broker; repeatable.")
@json_option
@timeout_option
@bootstrap_option
def dirs(**options: Any) -> None:
    """Show the log directories of brokers, and how large partitions are in them."""
    from headrace.cli.log_dirs import show_log_dirs

    show_log_dirs(**options)


@command.command()
@click.argument("path", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.option("--records/--no-records", "with_records", default=True, help="Show the records inside the batches.")
@click.option(
    "--decode",
    type=click.Choice(DECODERS),
    default="auto",
    show_default=True,
    help="How to read the records: as those of an internal topic, as they are, or as the directory's name says.",
)
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Show at most N rows of each file.")
def dump(path: str, as_json: bool, with_records: bool, decode: str, limit: int | None) -> None:
    """Print what is in PATH: a file of a log, the directory of a partition, or a whole log directory.

    Segments, indexes, snapshots, checkpoints and metadata are read as their names say; nothing is changed. A damaged
    file is shown up to the fault, and the exit code is 1.
    """
    from headrace.cli.log_dump import dump as run

    run(path, as_json=as_json, with_records=with_records, decode=decode, limit=limit)
