"""`headrace consume`: records of topics onto the screen or into a pipe."""

from typing import Any

import click

from headrace.cli.connect import bootstrap_option, complete_groups, complete_topics


@click.command("consume")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC[:PARTITION]…", shell_complete=complete_topics)
@click.option(
    "--from",
    "-o",
    "start",
    default="beginning",
    show_default=True,
    metavar="WHERE",
    help="beginning, end, an offset, or the time of the first record, such as 2024-05-01T12:00Z, "
    "@1714564800000 or '2h ago'.",
)
@click.option(
    "--group",
    "-g",
    metavar="GROUP",
    shell_complete=complete_groups,
    help="Share the partitions with the other members of this group, and commit what is printed. "
    "--from then says where to begin without a committed offset: beginning or end.",
)
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="The last N records of each partition.")
@click.option(
    "--partition", "-p", "partitions", type=click.IntRange(min=0), multiple=True, help="Only this; repeatable."
)
@click.option("--count", "-c", type=click.IntRange(min=1), metavar="N", help="Stop after N records.")
@click.option(
    "--exit/--follow", "-e", "at_end", default=False, help="Stop at the end, or wait for more.  [default: follow]"
)
@click.option("--key-separator", "-K", metavar="TEXT", help="Print the key and this text before each value.")
@click.option(
    "--format",
    "-f",
    "template",
    metavar="TEXT",
    help="As kcat has it: %s value, %k key, %t topic, %p partition, %o offset, %T time, %h headers, %S and %K lengths.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per record.")
@click.option("--null", metavar="TEXT", default="", help="What to print for a null key or value.")
@click.option("--read-committed", is_flag=True, help="Leave out records of open and aborted transactions.")
@click.option("--config", "-X", "configs", metavar="KEY=VALUE", multiple=True, help="A consumer config; repeatable.")
@bootstrap_option
def command(**options: Any) -> None:
    """Print the records of topics, and go on as more come.

    Order holds within a partition. Nothing is committed, except by a member of a group.
    """
    from headrace.cli.consume_action import consume

    consume(**options)
