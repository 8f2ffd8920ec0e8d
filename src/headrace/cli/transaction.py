"""`headrace transaction`: what transactional producers do, and how one that hangs is ended."""

from typing import Any, Final

import click

from headrace.cli.connect import bootstrap_option, complete_topics, complete_transactions, json_option, timeout_option

STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)


@click.group("transaction")
def command() -> None:
    """Look at transactions, and end those which hang."""


@command.command("list")
@click.option(
    "--state",
    "-s",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    metavar="STATE",
    multiple=True,
    help=f"Only those in this state; repeatable. {', '.join(STATES)}.",
)
@click.option("--producer-id", "producer_ids", type=int, multiple=True, metavar="ID", help="Of this one; repeatable.")
@click.option("--longer-than", metavar="DURATION", help="Only those which have run for longer, such as 90s or 15m.")
@click.option(
    "--id", "pattern", metavar="PATTERN", help="Only ids that this regular expression of RE2 matches as a whole."
)
@json_option
@timeout_option
@bootstrap_option
def list_(**options: Any) -> None:
    """List transactional ids, with the state of their latest transaction."""
    from headrace.cli import transaction_actions

    transaction_actions.list_transactions(**options)


@command.command()
@click.argument("ids", nargs=-1, required=True, metavar="TRANSACTIONAL-ID…", shell_complete=complete_transactions)
@json_option
@timeout_option
@bootstrap_option
def describe(**options: Any) -> None:
    """Show producer, time-out, start and partitions of transactions."""
    from headrace.cli import transaction_actions

    transaction_actions.describe_transactions(**options)


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC[:PARTITION]…", shell_complete=complete_topics)
@json_option
@timeout_option
@bootstrap_option
def producers(**options: Any) -> None:
    """Show who writes to partitions with idempotence or in transactions, as the partitions remember it."""
    from headrace.cli import transaction_hanging

    transaction_hanging.show_producers(**options)


@command.command()
@click.argument("names", nargs=-1, metavar="[TOPIC[:PARTITION]…]", shell_complete=complete_topics)
@click.option("--broker", type=int, metavar="ID", help="Only partitions that this broker leads.")
@click.option(
    "--longer-than",
    metavar="DURATION",
    default="15m",
    show_default=True,
    help="Only those without a record for so long; less than transaction.max.timeout.ms may find what still works.",
)
@json_option
@timeout_option
@bootstrap_option
def hanging(**options: Any) -> None:
    """Find transactions that are open in these partitions, or in all, and that no coordinator will ever end.

    They hold up everybody who reads committed records. The exit code is 1 if there are some.
    """
    from headrace.cli import transaction_hanging

    transaction_hanging.find_hanging(**options)


@command.command()
@click.argument("place", metavar="TOPIC:PARTITION", shell_complete=complete_topics)
@click.option("--start-offset", type=click.IntRange(min=0), metavar="OFFSET", help="The one that begins there.")
@click.option("--producer-id", type=int, metavar="ID", help="The one of this producer.")
@click.option("--force", is_flag=True, help="Even if its coordinator knows it, and could end it properly.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
@timeout_option
@bootstrap_option
def abort(**options: Any) -> None:
    """Abort a transaction that hangs in a partition, without asking its coordinator.

    `headrace transaction hanging` finds them. `headrace transaction terminate` is for those which a coordinator knows.
    """
    from headrace.cli import transaction_hanging

    transaction_hanging.abort(**options)


@command.command()
@click.argument("ids", nargs=-1, required=True, metavar="TRANSACTIONAL-ID…", shell_complete=complete_transactions)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
@timeout_option
@bootstrap_option
def terminate(**options: Any) -> None:
    """Abort what is open under these ids in all partitions, and shut out the producers that use them."""
    from headrace.cli import transaction_actions

    transaction_actions.terminate(**options)
