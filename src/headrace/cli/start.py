"""`headrace start`: a broker in this process, until it is told to stop."""

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from headrace.server.broker import Broker
    from headrace.server.settings import Settings

DEFAULT_DATA: Final = "headrace-data"
DEFAULT_LISTEN: Final = "localhost:9092"

_DEFAULT_PORT: Final = 9092  # where the other commands look
# Objects that did not go by themselves. Python's 700 are there within a few requests, of whose objects hardly any needs
# the collector; and a start makes nothing but objects that stay.
_COLLECT_AFTER: Final = 10_000
# The loop lets go of the interpreter at each system call, and a thread that computes meanwhile, as one that writes a
# snapshot of the metadata, keeps it for so long. Python's 5 ms are felt by each request, several times.
_SWITCH_SECONDS: Final = 50e-6
_MOST_DESCRIPTORS_OF_MACOS: Final = 10_240  # it takes no more, though its hard limit says that there is none


@click.command("start")
@click.option("--data", type=click.Path(file_okay=False), help=f"The data directory.  [default: ./{DEFAULT_DATA}]")
@click.option("--listen", metavar="HOST:PORT", help=f"Where clients connect.  [default: {DEFAULT_LISTEN}]")
@click.option("--config", "config_file", type=click.Path(exists=True, dir_okay=False), help="A server.properties file.")
@click.option("--set", "assignments", metavar="KEY=VALUE", multiple=True, help="A config by Kafka's name; repeatable.")
@click.option("--ephemeral", is_flag=True, help="Keep the data in a temporary directory, and remove it at the end.")
def command(
    data: str | None, listen: str | None, config_file: str | None, assignments: tuple[str, ...], ephemeral: bool
) -> None:
    """Start one broker, and serve until it is interrupted."""
    import asyncio  # here and below: `headrace --help` looks at every noun, and must not load what only a broker needs
    import logging
    import tempfile

    from headrace.server.event_loop import new_event_loop

    if ephemeral and data:
        raise click.UsageError("--ephemeral and --data exclude one another: choose where the data lives.")
    settings = _settings(listen, config_file, assignments)
    for notice in settings.notices:
        click.echo(f"headrace: {notice}", err=True)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    _take_all_descriptors()
    with contextlib.ExitStack() as stack:
        if ephemeral:
            data = stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-"))
        path = data or settings.data_directory or DEFAULT_DATA
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(settings, path, is_temporary=ephemeral))


def _take_all_descriptors() -> None:
    """Raise the soft limit to the hard one, as Java does for Apache Kafka.

    Shells give 1024 descriptors on Linux and 256 on macOS: some hundred clients or partitions would use them up.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if sys.platform == "darwin":
        hard = _MOST_DESCRIPTORS_OF_MACOS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS_OF_MACOS)
    with contextlib.suppress(OSError, ValueError):  # a system that wants otherwise has its way
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _settings(listen: str | None, config_file: str | None, assignments: tuple[str, ...]) -> "Settings":
    from headrace.protocol.properties import PropertiesError, parse_properties
    from headrace.server.settings import SettingsError, load_settings

    given: dict[str, str] = {}
    try:
        if config_file is not None:
            given |= parse_properties(_text(Path(config_file).read_bytes()))
        for assignment in assignments:
            name, equals, value = assignment.partition("=")
            if not equals:
                raise click.UsageError(f"--set {assignment}: write KEY=VALUE, such as --set num.partitions=3")
            given[name.strip()] = value.strip()
        if listen is not None or "listeners" not in given:
            given["listeners"] = f"PLAINTEXT://{listen or DEFAULT_LISTEN}"
        return load_settings(given)
    except PropertiesError as error:
        raise click.ClickException(f"{config_file}, {error}") from None
    except SettingsError as error:
        raise click.ClickException("\n  ".join(["cannot start:", *str(error).splitlines()])) from None


def _text(data: bytes) -> str:
    """Of a file of properties. Java writes and reads them in Latin-1, editors in UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


async def _serve(settings: "Settings", path: str, *, is_temporary: bool) -> None:
    import asyncio
    import gc
    import signal

    from headrace.log.errors import LogError
    from headrace.log.fs import RealFileSystem
    from headrace.server.broker import Broker
    from headrace.server.start_error import StartError
    from headrace.server.unsynced import UnsyncedFileSystem

    loop = asyncio.get_running_loop()
    told_to_stop: asyncio.Future[None] = loop.create_future()
    failure: asyncio.Future[Exception] = loop.create_future()
    unsaid: list[OSError] = []  # why nobody has heard that it is ready

    def stop() -> None:
        if not told_to_stop.done():
            told_to_stop.set_result(None)

    def fail(error: Exception) -> None:
        if not failure.done():
            failure.set_result(error)

    def begin(_: None) -> None:
        try:
            _begin(broker, path)
        except OSError as error:  # whoever waits for the line would wait forever
            unsaid.append(error)
            stop()

    async def until(event: asyncio.Future[None]) -> None:
        await asyncio.wait((event, failure), return_when=asyncio.FIRST_COMPLETED)
        if failure.done():
            raise click.ClickException(f"the broker stops: {failure.result()}")

    gc.set_threshold(_COLLECT_AFTER)
    sys.setswitchinterval(_SWITCH_SECONDS)
    # Nobody looks for temporary data after a power cut, so it does not wait for the disk.
    fs = UnsyncedFileSystem() if is_temporary else RealFileSystem()
    try:
        broker = Broker(settings, os.path.abspath(path), loop=loop, fs=fs, on_failure=fail)
        ready = broker.start()
    except (LogError, StartError, OSError) as error:
        raise click.ClickException(str(error)) from None
    ready.then(begin)
    signals = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup
        signals.append(signal.SIGHUP)
    for number in signals:
        loop.add_signal_handler(number, stop)
    await until(told_to_stop)
    if is_temporary:
        broker.kill()  # nobody will miss what a clean stop writes
    else:
        left: asyncio.Future[None] = loop.create_future()
        broker.stop().then(left.set_result)
        await until(left)  # of a disk that fails now nobody would hear otherwise
        try:
            broker.close()
        except LogError as error:
            raise click.ClickException(f"the stop was not clean, and the next start takes longer: {error}") from None
    if unsaid:
        raise unsaid[0]


def _begin(broker: "Broker", path: str) -> None:
    import gc

    # All that is there stays to the end. The garbage collector would go through it again and again, for 20 ms each
    # time, while requests wait.
    gc.freeze()
    _say_ready(broker, path)


def _say_ready(broker: "Broker", path: str) -> None:
    from headrace.cluster.listeners import Endpoint

    addresses = ", ".join(str(listener) for listener in broker.listeners)
    _, host, port = broker.listeners[0]
    at = "" if port == _DEFAULT_PORT else f" --bootstrap {Endpoint(host, port)}"
    click.echo(f"Headrace is ready at {addresses}, data in {path}. Try: headrace produce hello{at}. Ctrl-C stops it.")
