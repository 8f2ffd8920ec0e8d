"""`headrace group`: who reads topics together, how far they are, and where they go on."""

from typing import Any, Final

import click

from headrace.cli.connect import bootstrap_option, complete_groups, complete_topics, json_option, timeout_option

STATES: Final = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "Stable",
    "Dead",
    "NotReady",
)
TYPES: Final = ("classic", "consumer", "share", "streams")

group_argument = click.argument("group", shell_complete=complete_groups)


@click.group("group")
def command() -> None:
    """Look at consumer groups, and change where they go on."""


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
@click.option(
    "--type",
    "-t",
    "types",
    type=click.Choice(TYPES, case_sensitive=False),
    multiple=True,
    help="Only those of this type; repeatable.",
)
@json_option
@timeout_option
@bootstrap_option
def list_(**options: Any) -> None:
    """List groups."""
    from headrace.cli import group_actions

    group_actions.list_groups(**options)


@command.command()
@click.argument("groups", nargs=-1, metavar="[GROUP…]", shell_complete=complete_groups)
@json_option
@timeout_option
@bootstrap_option
def describe(**options: Any) -> None:
    """Show members, committed offsets and lag, of these groups or of all."""
    from headrace.cli import group_describe

    group_describe.describe_groups(**options)


@command.command()
@group_argument
@click.argument("names", nargs=-1, metavar="[TOPIC[:PARTITION]…]", shell_complete=complete_topics)
@click.option("--all-topics", is_flag=True, help="All partitions for which the group has committed an offset.")
@click.option(
    "--to",
    metavar="WHERE",
    help="earliest, latest, current, an offset, or the time of the first record to read, such as 2024-05-01T12:00Z, "
    "@1714564800000 or '2h ago'.",
)
@click.option("--shift", type=int, metavar="N", help="So many records ahead, or back if it is negative.")
@click.option(
    "--from-file",
    "file",
    type=click.File(encoding="utf-8"),
    metavar="FILE",
    help="Offsets as --export or --json write them, or kafka-consumer-groups --export; - is standard input.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--export", is_flag=True, help="Print the plan as CSV, for --from-file and kafka-consumer-groups.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
@timeout_option
@bootstrap_option
def reset(**options: Any) -> None:
    """Set the offsets from which a group goes on. It must have no members meanwhile.

    The plan is shown first; --dry-run leaves it at that. An offset outside of a log is moved to its beginning or end.

    \b
    headrace group reset billing orders --to earliest --dry-run
    headrace group reset billing orders:0 orders:1 --to '2h ago'
    headrace group reset billing --all-topics --shift -100
    headrace group reset billing --all-topics --to current --dry-run --export > before.csv
    headrace group reset billing --from-file before.csv
    """
    from headrace.cli import group_reset

    group_reset.reset(**options)


@command.command()
@click.argument("groups", nargs=-1, required=True, metavar="GROUP…", shell_complete=complete_groups)
@click.option("--if-exists", is_flag=True, help="A group that does not exist is no error.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
@timeout_option
@bootstrap_option
def delete(**options: Any) -> None:
    """Delete groups without members, with all that they have committed."""
    from headrace.cli import group_actions

    group_actions.delete_groups(**options)


@command.command("delete-offsets")
@group_argument
@click.argument("names", nargs=-1, required=True, metavar="TOPIC[:PARTITION]…", shell_complete=complete_topics)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
@timeout_option
@bootstrap_option
def delete_offsets(**options: Any) -> None:
    """Forget what a group has committed for topics that none of its members reads."""
    from headrace.cli import group_actions

    group_actions.delete_offsets(**options)
