"""kcat, from the PATH or out of Debian's packages; it brings a librdkafka older than the one of confluent-kafka.

Where it is not installed, the packages are downloaded by apt and unpacked into `.cache/kcat/` of the repository:
nothing is installed, so root is not needed and the machine stays as it is. apt works on lists of its own in there,
since those of the machine may be missing or old. A directory that carries the mark `complete` is used as it is: only
the first run needs the network.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

CACHE: Final = Path(__file__).parents[2] / ".cache" / "kcat"
FETCH_SECONDS: Final = 240.0
RUN_SECONDS: Final = 60.0


class KcatError(AssertionError):
    """kcat cannot be had, or ended with an error; the message has its output."""


def missing_kcat() -> str | None:
    """What this machine lacks to run kcat, or None."""
    if shutil.which("kcat") or (CACHE / "complete").exists():
        return None
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            return f"kcat is not on the PATH, and without {tool} Debian's package cannot be fetched"
    return None


@dataclass(frozen=True, slots=True)
class Kcat:
    program: str
    libraries: Sequence[Path] = field(default_factory=tuple)

    def run(self, address: str, *arguments: str, send: str | bytes = b"") -> str:
        """What it prints, when it ends well."""
        done = self.end(address, *arguments, send=send)
        if done.returncode != 0:
            raise KcatError(f"kcat {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def end(self, address: str, *arguments: str, send: str | bytes = b"") -> subprocess.CompletedProcess[str]:
        """How it ends."""
        content = send.encode() if isinstance(send, str) else send
        done = subprocess.run(
            [self.program, "-b", address, *arguments],
            input=content,
            capture_output=True,
            env=self._environment(),
            timeout=RUN_SECONDS,
            check=False,
        )
        decoded = [text.decode(errors="surrogateescape") for text in (done.stdout, done.stderr)]
        return subprocess.CompletedProcess(done.args, done.returncode, *decoded)

    def _environment(self) -> Mapping[str, str]:
        if not self.libraries:
            return os.environ
        return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(map(str, self.libraries))}


def find_kcat() -> Kcat:
    """The one that is installed, or else the one in the cache, fetched if it is not there. Raises KcatError."""
    if (installed := shutil.which("kcat")) is not None:
        return Kcat(installed)
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers may come at once
        if not (CACHE / "complete").exists():
            _fetch()
    root = CACHE / "root"
    libraries = sorted({file.parent for file in (root / "usr" / "lib").rglob("lib*.so*")})
    return Kcat(str(root / "usr" / "bin" / "kcat"), libraries)


def _fetch() -> None:
    apt, archives, root = CACHE / "apt", CACHE / "apt" / "cache" / "archives", CACHE / "root"
    for directory in (apt, root):
        shutil.rmtree(directory, ignore_errors=True)
    for directory in (apt / "state" / "lists" / "partial", archives / "partial", root):
        directory.mkdir(parents=True)
    own = {
        "Dir::State": apt / "state",
        "Dir::State::status": "/var/lib/dpkg/status",  # what is installed need not be fetched
        "Dir::Cache": apt / "cache",
        "Debug::NoLocking": 1,
        "APT::Sandbox::User": "root",  # for root only: another user could not write in here
    }
    options = [part for name, value in own.items() for part in ("-o", f"{name}={value}")]
    # A source that is of no use here may be down: what counts is whether the packages are there.
    updated = _call("apt-get", *options, "--quiet", "update")
    install = ("--quiet", "--yes", "--no-install-recommends", "--download-only", "install", "kcat")
    _check(_call("apt-get", *options, *install), updated)
    for package in sorted(archives.glob("*.deb")):
        _check(_call("dpkg-deb", "--extract", str(package), str(root)))
    shutil.rmtree(apt)
    (CACHE / "complete").touch()


def _call(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)


def _check(done: subprocess.CompletedProcess[str], *before: subprocess.CompletedProcess[str]) -> None:
    """Raises KcatError, with what was said, unless it ended well."""
    if done.returncode != 0:
        said = "".join(f"{each.stdout[-1000:]}{each.stderr[-2000:]}" for each in (*before, done))
        raise KcatError(
            f"kcat is not installed and could not be fetched: {' '.join(done.args)} ended with {done.returncode}.\n"
            f"  Install it (apt-get install kcat), or see what apt says:\n{said}"
        )
