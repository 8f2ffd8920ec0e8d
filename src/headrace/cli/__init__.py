"""The command `headrace`: one noun, one file. Tables for people, `--json` for programs.

A noun's module is imported when it is asked for, and imports what it works with when it works: `headrace --help` must
answer before anybody notices that it had to load something.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

import click

NOUNS: Final = (
    "cluster",
    "completion",
    "config",
    "consume",
    "demo",
    "group",
    "log",
    "pipeline",
    "produce",
    "start",
    "topic",
    "transaction",
)

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors that only writing has


class Nouns(click.Group):
    """Finds the command of a noun in the module of that name."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the names are click's
        return list(NOUNS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in NOUNS:
            return None
        command: click.Command = import_module(f"headrace.cli.{cmd_name}").command
        return command

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """With `--help` and `--version` all is printed here."""
        with _telling_of_a_full_disk():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _telling_of_a_full_disk():
            return super().invoke(ctx)


@contextmanager
def _telling_of_a_full_disk() -> Iterator[None]:
    """Click knows what to do about a pipe that is closed, but not about this. Raises Complaint."""
    try:
        yield
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        from headrace.cli.output import Complaint

        raise Complaint(f"Cannot write: {error.strerror}.", hint="What is missing was not printed.") from None


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"headrace {version('headrace')}")
        context.exit()


@click.command(cls=Nouns, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
def main() -> None:
    """Headrace: Kafka for Python people."""
