"""`headrace config`: configs of topics, brokers and groups, and quotas of clients."""

from typing import Any, Final

import click

from headrace.cli.connect import bootstrap_option, json_option, timeout_option

# What has configs; the last three have quotas.
KINDS: Final = ("topic", "broker", "cluster", "group", "client-metrics", "broker-logger", "user", "client", "ip")

kind_argument = click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only say whether it would work.")


@click.group("config")
def command() -> None:
    """Look at and change configs and quotas.

    KIND is topic, broker, cluster (what all brokers share), group, client-metrics or broker-logger; or user, client or
    ip, whose configs are quotas. NAME says which one: of a broker it is its id, of a quota `default` stands for
    whoever has none of its own.
    """


@command.command("list")
@json_option
@timeout_option
@bootstrap_option
def list_(**options: Any) -> None:
    """List what has configs of its own."""
    from headrace.cli import config_actions

    config_actions.list_resources(**options)


@command.command()
@kind_argument
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Also what is not set, with its default.")
@click.option("--key", "-k", "keys", multiple=True, metavar="KEY", help="Only this config; repeatable.")
@click.option("--docs", is_flag=True, help="Say what each is for.")
@json_option
@timeout_option
@bootstrap_option
def describe(**options: Any) -> None:
    """Show configs that are set, and where."""
    from headrace.cli import config_actions

    config_actions.describe(**options)


@command.command("set")
@kind_argument
@click.argument("name_and_pairs", nargs=-1, required=True, metavar="[NAME] KEY=VALUE…")
@click.option("--append", is_flag=True, help="Add to a list instead of replacing it.")
@click.option("--subtract", is_flag=True, help="Take out of a list instead of replacing it.")
@dry_run_option
@json_option
@timeout_option
@bootstrap_option
def set_(**options: Any) -> None:
    """Set configs; the others stay as they are."""
    from headrace.cli import config_actions

    config_actions.set_configs(**options)


@command.command()
@kind_argument
@click.argument("name_and_keys", nargs=-1, required=True, metavar="[NAME] KEY…")
@dry_run_option
@json_option
@timeout_option
@bootstrap_option
def unset(**options: Any) -> None:
    """Take configs away, so that the default counts again."""
    from headrace.cli import config_actions

    config_actions.unset_configs(**options)
