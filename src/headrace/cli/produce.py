"""`headrace produce`: lines, files or JSON into a topic."""

from typing import Any, Final

import click

from headrace.cli.connect import bootstrap_option, complete_topics

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


@click.command("produce")
@click.argument("topic", shell_complete=complete_topics)
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False), metavar="[FILE…]")
@click.option("--key-separator", "-K", metavar="TEXT", help="A line is a key, this text, and a value.")
@click.option("--delimiter", "-D", metavar="TEXT", default="\\n", show_default=True, help="What ends a record.")
@click.option("--key", "-k", metavar="KEY", help="The key of all records.")
@click.option("--header", "-H", "headers", metavar="NAME=VALUE", multiple=True, help="A header of all; repeatable.")
@click.option("--null", "-Z", "empty_is_null", is_flag=True, help="An empty key or value is null.")
@click.option("--json", "as_json", is_flag=True, help="Each line is an object as `headrace consume --json` prints it.")
@click.option("--partition", "-p", type=click.IntRange(min=0), help="Where to; by key, or in turn, if left out.")
@click.option("--compression", "-z", type=click.Choice(CODECS), help="How batches are compressed.")
@click.option(
    "--acks", type=click.Choice(("all", "1", "0")), help="Who must have a record: all in sync, the leader, nobody."
)
@click.option("--config", "-X", "configs", metavar="KEY=VALUE", multiple=True, help="A producer config; repeatable.")
@bootstrap_option
def command(**options: Any) -> None:
    """Write lines or files to a topic.

    Each line of standard input is a record; with FILEs, each of them is one.
    """
    from headrace.cli.produce_action import produce

    produce(**options)
