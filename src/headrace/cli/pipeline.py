"""`headrace pipeline`: run apps of headrace.streams, look at them, set them back, and ask for their tables."""

from typing import Any

import click

from headrace.cli.connect import VARIABLE, json_option, timeout_option


def complete_pipelines(_: click.Context, __: click.Parameter, incomplete: str) -> list[Any]:
    """Python files, and the apps of this machine."""
    from click.shell_completion import CompletionItem

    from headrace.streams.known_apps import apps_of_this_machine

    apps = [CompletionItem(app.name) for app in apps_of_this_machine() if app.name.startswith(incomplete)]
    return [*apps, CompletionItem(incomplete, type="file")]


def complete_files(_: click.Context, __: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def cluster_option(command: Any) -> Any:
    """--bootstrap, which here goes before what the app itself says."""
    return click.option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT,…",
        envvar=VARIABLE,
        show_envvar=True,
        help="Where the cluster is, if not where the app says.",
    )(command)


def state_option(command: Any) -> Any:
    return click.option(
        "--state", metavar="DIR", type=click.Path(file_okay=False), help="The app's state, if not where it says."
    )(command)


def master_option(command: Any) -> Any:
    return click.option("--master", metavar="URL", help="Where Spark runs, if not where the app says.")(command)


file_argument = click.argument("file", metavar="FILE[:NAME]", shell_complete=complete_files)
app_argument = click.argument("app", metavar="APP|FILE", shell_complete=complete_pipelines)


@click.group("pipeline")
def command() -> None:
    """Run pipelines on Spark, look at them, set them back, ask for their tables.

    FILE is a Python file that makes an app (headrace.streams.App) at its top level; FILE:NAME names one of several.
    An APP that has run on this machine is known by its name.
    """


@command.command()
@file_argument
@click.option("--trigger", metavar="TIME", help="The least time from one micro-batch to the next, such as 1s.")
@click.option(
    "--max-per-trigger",
    metavar="N",
    type=click.IntRange(min=1),
    help="How many records of each stream one micro-batch takes at most.",
)
@click.option("--until-caught-up", is_flag=True, help="Work off what the topics hold now, and end.")
@master_option
@state_option
@json_option
@cluster_option
def run(**options: Any) -> None:
    """Run a pipeline until Ctrl-C or SIGTERM, exactly once over all runs.

    \b
    headrace pipeline run sales.py
    headrace pipeline run sales.py --until-caught-up
    headrace pipeline run sales.py:app --master spark://host:7077 --trigger 1s
    """
    from headrace.cli import pipeline_run

    pipeline_run.run(**options)


@command.command()
@app_argument
@click.option("--mermaid", is_flag=True, help="The plan as a picture in Mermaid's language.")
@state_option
@json_option
@timeout_option
@cluster_option
def describe(**options: Any) -> None:
    """Show the plan of a pipeline, and how far it is. Spark is not started."""
    from headrace.cli import pipeline_describe

    pipeline_describe.describe(**options)


@command.command("list")
@json_option
@timeout_option
@cluster_option
def list_(**options: Any) -> None:
    """List the pipelines whose state is on this machine, and those whose groups the cluster has."""
    from headrace.cli import pipeline_describe

    pipeline_describe.list_apps(**options)


@command.command()
@app_argument
@click.option("--to-earliest", is_flag=True, help="Begin where the topics begin.")
@click.option(
    "--to-time",
    metavar="TIME",
    help="Begin at the first record that is not older: 2024-05-01T12:00Z, @1714564800000 or '2h ago'.",
)
@click.option(
    "--to-offset",
    "to_offsets",
    metavar="[TOPIC[:PARTITION]=]N",
    multiple=True,
    help="Begin at this offset, of all partitions or of those named; repeatable. The others begin at the beginning.",
)
@click.option("--undo", is_flag=True, help="Bring back what the last reset has moved aside.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@state_option
@json_option
@timeout_option
@cluster_option
def reset(**options: Any) -> None:
    """Make a pipeline begin again. It must not run meanwhile.

    Its checkpoints are moved aside, what its groups have committed is forgotten, and the next run empties topics of its
    own. What it has written to other topics stays there, so results come a second time. Tables are always read from
    their beginning.

    \b
    headrace pipeline reset sales --to-earliest --dry-run
    headrace pipeline reset sales.py --to-time '2h ago'
    headrace pipeline reset sales --to-offset orders:0=1200 --to-offset orders:1=900
    headrace pipeline reset sales --undo
    """
    from headrace.cli import pipeline_reset

    pipeline_reset.reset(**options)


@command.command()
@file_argument
@click.option(
    "--from",
    "start",
    metavar="WHERE",
    multiple=True,
    help="A time, or an offset as [TOPIC[:PARTITION]=]N; repeatable. Else the beginning.",
)
@click.option("--to", "end", metavar="WHERE", multiple=True, help="The same, not included. Else the end.")
@click.option("--topic", metavar="TOPIC", help="Write all results to this topic, instead of printing them.")
@master_option
@json_option
@cluster_option
def replay(**options: Any) -> None:
    """Run a pipeline over a part of its topics as a batch, and print what it would write.

    Nothing of the pipeline itself changes: neither its state nor its topics. Windows are closed by the end of the part,
    and of each row of a table only the last change is seen. Global tables are as they are now.

    \b
    headrace pipeline replay sales.py --from 2024-05-01 --to 2024-05-02
    headrace pipeline replay sales.py --from orders:0=1200 --to orders:0=1300 --json
    headrace pipeline replay sales.py --from '1h ago' --topic sales-again
    """
    from headrace.cli import pipeline_replay

    pipeline_replay.replay(**options)


@command.command("replay-dead")
@file_argument
@click.option("--resend", is_flag=True, help="Send the records to their topics again, for a pipeline with state.")
@click.option("--dry-run", is_flag=True, help="Only say how many there are.")
@master_option
@json_option
@cluster_option
def replay_dead(**options: Any) -> None:
    """Run the dead letters of a pipeline through it again; those that still fail stay dead.

    Each is taken once: their results, those that fail again, and the position in the dead letters are one transaction.
    """
    from headrace.cli import pipeline_replay

    pipeline_replay.replay_dead(**options)


@command.command()
@app_argument
@click.argument("table")
@click.option(
    "--key", "-k", "keys", metavar="[COLUMN=]VALUE", multiple=True, help="Of this key; of each column, if several."
)
@click.option("--from", "start", metavar="WHERE", help="From this key on; of a windowed table, windows from a time on.")
@click.option("--to", "end", metavar="WHERE", help="Before this key, or windows that begin before a time.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="So many rows at most.")
@state_option
@json_option
@cluster_option
def query(**options: Any) -> None:
    """Ask for rows of a TABLE, by its operator's name or its topic, while the pipeline runs or when it does not.

    \b
    headrace pipeline query sales per-country --key DE
    headrace pipeline query sales per-country --from A --to F
    headrace pipeline query sales.py sales-per-minute --key DE --from '1h ago'
    """
    from headrace.cli import pipeline_query

    pipeline_query.query(**options)
