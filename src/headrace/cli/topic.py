"""`headrace topic`: create, look at and change topics."""

from typing import Any

import click

from headrace.cli.connect import bootstrap_option, complete_topics, json_option, timeout_option


@click.group("topic")
def command() -> None:
    """Create, look at and change topics."""


@command.command("list")
@click.option("--internal", is_flag=True, help="Also those which the cluster keeps for itself.")
@json_option
@timeout_option
@bootstrap_option
def list_(**options: Any) -> None:
    """List topics."""
    from headrace.cli import topic_actions

    topic_actions.list_topics(**options)


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.option(
    "--partitions", "-p", type=click.IntRange(min=1), help="How many; the broker's num.partitions if left out."
)
@click.option(
    "--replication", "-r", type=click.IntRange(min=1), help="Replicas of each; the broker's default if left out."
)
@click.option("--config", "-c", "configs", metavar="KEY=VALUE", multiple=True, help="A topic config; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Leave a topic that exists as it is.")
@click.option("--dry-run", is_flag=True, help="Only say whether it would work.")
@json_option
@timeout_option
@bootstrap_option
def create(**options: Any) -> None:
    """Create topics."""
    from headrace.cli import topic_actions

    topic_actions.create_topics(**options)


@command.command()
@click.argument("names", nargs=-1, metavar="[NAME…]", shell_complete=complete_topics)
@click.option("--under-replicated", is_flag=True, help="Only partitions with a replica that is not in sync.")
@click.option("--unavailable", is_flag=True, help="Only partitions without a leader.")
@json_option
@timeout_option
@bootstrap_option
def describe(**options: Any) -> None:
    """Show partitions, leaders, replicas and configs, of these topics or of all."""
    from headrace.cli import topic_actions

    topic_actions.describe_topics(**options)


@command.command()
@click.argument("name", shell_complete=complete_topics)
@click.option("--partitions", "-p", type=click.IntRange(min=1), required=True, help="How many it shall have.")
@click.option("--dry-run", is_flag=True, help="Only say whether it would work.")
@json_option
@timeout_option
@bootstrap_option
def alter(**options: Any) -> None:
    """Give a topic more partitions.

    Records with a key go to other partitions from then on; those which are there stay where they are.
    """
    from headrace.cli import topic_actions

    topic_actions.alter_topic(**options)


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…", shell_complete=complete_topics)
@click.option("--if-exists", is_flag=True, help="A topic that does not exist is no error.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
@timeout_option
@bootstrap_option
def delete(**options: Any) -> None:
    """Delete topics with all their records."""
    from headrace.cli import topic_actions

    topic_actions.delete_topics(**options)


@command.command()
@click.argument("names", nargs=-1, metavar="[NAME[:PARTITION]…]", shell_complete=complete_topics)
@click.option(
    "--time",
    "at",
    metavar="TIME",
    help="The first offset at or after this time: earliest, latest, max-timestamp, milliseconds since 1970, "
    "or a date such as 2024-05-01T12:00Z.",
)
@click.option("--read-committed", is_flag=True, help="The end is where open transactions begin.")
@json_option
@timeout_option
@bootstrap_option
def offsets(**options: Any) -> None:
    """Show the first and the last offset of partitions, or the offset at a time; of these topics or of all."""
    from headrace.cli import topic_actions

    topic_actions.show_offsets(**options)


@command.command("delete-records")
@click.argument("name", metavar="NAME[:PARTITION]", shell_complete=complete_topics)
@click.option("--before", type=click.IntRange(min=0), metavar="OFFSET", help="Delete records below this offset.")
@click.option("--all", "everything", is_flag=True, help="Delete all records.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
@timeout_option
@bootstrap_option
def delete_records(**options: Any) -> None:
    """Delete the oldest records of a partition, or of all partitions of a topic."""
    from headrace.cli import topic_actions

    topic_actions.delete_records(**options)


@command.command()
@click.argument("names", nargs=-1, metavar="[NAME[:PARTITION]…]", shell_complete=complete_topics)
@click.option("--unclean", is_flag=True, help="Elect a replica that is not in sync; records may be lost.")
@json_option
@timeout_option
@bootstrap_option
def elect(**options: Any) -> None:
    """Let the preferred replicas lead, of these partitions or of all."""
    from headrace.cli import topic_actions

    topic_actions.elect_leaders(**options)
