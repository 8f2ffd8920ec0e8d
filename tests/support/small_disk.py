"""Real ways to give a process a disk that is full, and room again later, without privileges.

A limit on the size of its files works for every process of one's own on Linux: writes beyond it fail with EFBIG, and it
can be raised while the process runs. A tmpfs of its own is the real thing, ENOSPC for everything, but needs a user
namespace, which some machines forbid: `why_no_tmpfs` says so.
"""

import resource
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.broker_process import BrokerProcess

_UNSHARE: Final = ("unshare", "--user", "--map-root-user", "--mount")
_BALLAST: Final = "ballast"


def limit_file_size(broker: BrokerProcess, size_bytes: int) -> None:
    """Files of the process grow no further than that."""
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))


def lift_file_size_limit(broker: BrokerProcess) -> None:
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@cache
def why_no_tmpfs() -> str | None:
    """What forbids a process to have a tmpfs of its own here; None if nothing does."""
    try:
        done = subprocess.run(
            [*_UNSHARE, "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except FileNotFoundError as error:
        return str(error)
    return done.stderr.strip() if done.returncode else None


def on_tmpfs(data: Path, size_bytes: int) -> list[str]:
    """A command that starts another one with a tmpfs mounted at `data`, which only that one sees."""
    data.mkdir(parents=True, exist_ok=True)
    script = f'mount -t tmpfs -o size={size_bytes} tmpfs "{data}" && exec "$@"'
    return [*_UNSHARE, "sh", "-c", script, "sh"]


def inside(broker: BrokerProcess) -> Path:
    """The data directory as the process sees it."""
    return Path(f"/proc/{broker.pid}/root{broker.data}")


def fill_up(broker: BrokerProcess) -> None:
    """Write a file beside the broker's until there is no room left, not even for a byte."""
    with (inside(broker) / _BALLAST).open("wb", buffering=0) as file:
        for piece in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(piece))
            except OSError:
                continue


def make_room(broker: BrokerProcess) -> None:
    (inside(broker) / _BALLAST).unlink()
