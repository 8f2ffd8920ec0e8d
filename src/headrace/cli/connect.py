"""How commands reach a cluster: --bootstrap, and errors in the words of somebody who sits before a shell.

Exit codes: 0 it is done; 1 in part, or something wrong was found; 2 it cannot be done as asked; 3 no broker answers.
"""

import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from headrace.client.admin import AsyncAdmin
    from headrace.client.errors import KafkaError

Command = TypeVar("Command", bound=Callable[..., Any])
Key = TypeVar("Key")
Result = TypeVar("Result")

VARIABLE: Final = "HEADRACE_BOOTSTRAP"
DEFAULT: Final = "localhost:9092"
COMPLETION_SECONDS: Final = 2.0  # a shell that waits for names must not seem dead
_LIKENESS: Final = 0.6  # below it a suggestion puzzles more than it helps


def bootstrap_option(command: Command) -> Command:
    """Adds --bootstrap, as the parameter `bootstrap`."""
    return click.option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT,…",
        default=DEFAULT,
        envvar=VARIABLE,
        show_default=True,
        show_envvar=True,
        help="Where the cluster is.",
    )(command)


def json_option(command: Command) -> Command:
    """Adds --json, as the parameter `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")(command)


def timeout_option(command: Command) -> Command:
    """Adds --timeout, as the parameter `timeout`."""
    return click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help="Give up after this time.",
    )(command)


def ask(bootstrap: str, question: "Callable[[AsyncAdmin], Coroutine[Any, Any, Result]]") -> Result:
    """Run `question` with an admin client, and return its result. Errors become what a person can use."""
    import asyncio

    from headrace.client.admin import AsyncAdmin

    async def run() -> Result:
        async with AsyncAdmin(bootstrap, client_id="headrace-cli") as admin:
            try:
                await admin.ping()
                return await question(admin)
            except KafkaError as error:
                raise await explain(error, admin, bootstrap) from None

    from headrace.client.errors import KafkaError

    with complaints(bootstrap):
        return asyncio.run(run())


def ask_about_each(
    bootstrap: str,
    question: "Callable[[AsyncAdmin], Coroutine[Any, Any, Mapping[Key, Result]]]",
    show: Callable[[Mapping[Key, Result]], None],
    *,
    tolerated: "type[KafkaError] | tuple[()]" = (),
) -> None:
    """As `ask`, about several items: `show` gets what worked, and then there are complaints about the others.

    An error of the kind `tolerated` is none.
    """
    from headrace.client.errors import KafkaError, PartialError

    async def run(admin: "AsyncAdmin") -> tuple[Mapping[Key, Result], click.ClickException | None]:
        try:
            return await question(admin), None
        except PartialError as error:
            errors = {item: each for item, each in error.errors.items() if not isinstance(each, tolerated)}
            if not errors:
                return error.results, None
            return error.results, await explain(PartialError(errors, error.results, "items"), admin, bootstrap)
        except KafkaError as error:
            if isinstance(error, tolerated):
                return {}, None
            raise

    results, trouble = ask(bootstrap, run)
    show(results)
    if trouble is not None:
        raise trouble


@contextmanager
def complaints(bootstrap: str = "") -> Iterator[None]:
    """Errors of the client as complaints: for what happens before or beside a question."""
    from headrace.cli.output import Complaint
    from headrace.client.errors import ConfigError, KafkaError

    try:
        yield
    except ConfigError as error:
        raise Complaint("\n  ".join(error.problems)) from None
    except KafkaError as error:
        raise complaint(error, bootstrap) from None
    except ValueError as error:
        raise Complaint(str(error)) from None


async def explain(error: "KafkaError", admin: "AsyncAdmin", bootstrap: str) -> click.ClickException:
    """The complaint, with the nearest name if a topic or a group does not exist."""
    from headrace.client.errors import KafkaError, PartialError, UnknownGroupError, UnknownTopicError

    hint = ""
    if isinstance(error, UnknownGroupError) and "'" in error.message:
        try:
            groups = [group.id for group in await admin.list_groups()]
        except KafkaError:
            groups = []
        hint = nearest(error.message.split("'")[1], groups) or "`headrace group list` shows what there is."
    if isinstance(error, UnknownTopicError) and "'" in error.message and "no partition" not in error.message:
        name = error.message.split("'")[1]
        try:
            known = [topic.name for topic in await admin.list_topics(internal=True)]
        except KafkaError:
            known = []
        hint = unknown_topic_hint(name, known)
    if isinstance(error, PartialError):
        from headrace.cli.output import Finding

        lines = [f"{item}: {failure.message}" for item, failure in error.errors.items()]
        return Finding(
            f"{len(error.errors)} of {len(error.errors) + len(error.results)} failed.", hint="\n  ".join(lines)
        )
    return complaint(error, bootstrap, hint=hint)


def unknown_topic_hint(name: str, known: Iterable[str]) -> str:
    """What to do about a topic that does not exist."""
    otherwise = "`headrace topic list` shows what there is, `headrace topic create` makes another."
    return nearest(name, known) or otherwise


def nearest(name: str, known: Iterable[str]) -> str:
    """A question with the name that was perhaps meant; empty if none is near."""
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1, cutoff=_LIKENESS)
    return f"Did you mean {near[0]}?" if near else ""


def complaint(error: "KafkaError", bootstrap: str = "", *, hint: str = "") -> click.ClickException:
    """What happened, and what to do about it."""
    from headrace.cli.output import Complaint, Unreachable
    from headrace.client.errors import BrokerRefusedError, ConnectionLostError, NoBrokersError, PeerProtocolError

    if isinstance(error, ConnectionLostError) and not hint:
        where = f"--bootstrap {bootstrap}" if bootstrap else "--bootstrap"
        if isinstance(error, BrokerRefusedError | NoBrokersError):
            hint = f"Is a broker running? `headrace start` starts one. {where} or {VARIABLE} says where it is."
        elif not isinstance(error, PeerProtocolError):
            hint = f"{where} or {VARIABLE} says where the cluster is."
    tried = f" ({error.tried})" if error.tried and not isinstance(error, BrokerRefusedError) else ""
    kind = Unreachable if isinstance(error, ConnectionLostError) else Complaint
    what = error.message.partition(": is a broker running")[0].rstrip(".")  # the hint says it better
    end = "" if what.endswith("?") and not tried else "."
    return kind(f"{what}{tried}{end}", hint=hint)


def complete_topics(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of topics, for the shell."""

    async def names(admin: "AsyncAdmin") -> list[str]:
        return [topic.name for topic in await admin.list_topics(timeout=COMPLETION_SECONDS)]

    return _complete(context, names, incomplete)


def complete_groups(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Names of groups, for the shell."""

    async def names(admin: "AsyncAdmin") -> list[str]:
        return [group.id for group in await admin.list_groups(timeout=COMPLETION_SECONDS)]

    return _complete(context, names, incomplete)


def complete_transactions(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Transactional ids, for the shell."""

    async def names(admin: "AsyncAdmin") -> list[str]:
        return [transaction.id for transaction in await admin.list_transactions(timeout=COMPLETION_SECONDS)]

    return _complete(context, names, incomplete)


def _complete(
    context: click.Context, question: "Callable[[AsyncAdmin], Coroutine[Any, Any, list[str]]]", incomplete: str
) -> list[str]:
    """Those that begin so; none if the cluster does not answer at once."""
    import asyncio

    from headrace.client.admin import AsyncAdmin
    from headrace.client.errors import ConfigError, KafkaError

    bootstrap = context.params.get("bootstrap") or os.environ.get(VARIABLE) or DEFAULT

    async def names() -> list[str]:
        async with AsyncAdmin(bootstrap, retries=0) as admin:
            return await question(admin)

    try:
        return [name for name in asyncio.run(names()) if name.startswith(incomplete)]
    except (KafkaError, ConfigError, OSError):
        return []
