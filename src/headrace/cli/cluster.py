"""`headrace cluster`: brokers, features, and the quorum that keeps the metadata."""

from typing import Any

import click

from headrace.cli.connect import bootstrap_option, json_option, timeout_option


@click.group("cluster")
def command() -> None:
    """Look at brokers, features and the metadata quorum."""


@command.command()
@json_option
@timeout_option
@bootstrap_option
def describe(**options: Any) -> None:
    """Show the cluster and its brokers, also those which are fenced."""
    from headrace.cli import cluster_actions

    cluster_actions.describe(**options)


@command.command()
@json_option
@timeout_option
@bootstrap_option
def quorum(**options: Any) -> None:
    """Show who leads and who follows the cluster's metadata."""
    from headrace.cli import cluster_actions

    cluster_actions.show_quorum(**options)


@command.command()
@json_option
@timeout_option
@bootstrap_option
def features(**options: Any) -> None:
    """Show the features that the cluster has agreed on, and what its brokers could do."""
    from headrace.cli import cluster_actions

    cluster_actions.show_features(**options)


@command.command()
@click.argument("levels", nargs=-1, required=True, metavar="FEATURE=LEVEL…")
@click.option("--downgrade", is_flag=True, help="Allow a lower level, if nothing is lost by it.")
@click.option("--unsafe", is_flag=True, help="Allow a lower level, even if metadata is lost by it.")
@click.option("--dry-run", is_flag=True, help="Only say whether it would work.")
@json_option
@timeout_option
@bootstrap_option
def upgrade(**options: Any) -> None:
    """Let the cluster use these levels of features; level 0 switches one off."""
    from headrace.cli import cluster_actions

    cluster_actions.upgrade(**options)


@command.command("api-versions")
@click.option("--broker", type=int, metavar="ID", help="Of this broker; any one if left out.")
@json_option
@timeout_option
@bootstrap_option
def api_versions(**options: Any) -> None:
    """Show which APIs a broker serves, and in which versions."""
    from headrace.cli import cluster_actions

    cluster_actions.show_api_versions(**options)


@command.command()
@click.argument("broker", type=int)
@click.option("--force", is_flag=True, help="Even if it is alive: it then leads nothing until it is started again.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@json_option
@timeout_option
@bootstrap_option
def unregister(**options: Any) -> None:
    """Forget a broker that is gone for good."""
    from headrace.cli import cluster_actions

    cluster_actions.unregister(**options)
