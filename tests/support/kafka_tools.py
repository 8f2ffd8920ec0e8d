"""Apache Kafka's jars by Maven, and its command-line tools and our small Java programs run on them.

The versions are pinned in tests/support/kafka/pom.xml. The jars are copied once into `.cache/kafka-<version>/` of the
repository; a directory that carries the mark `complete` is used as it is, so only the first run needs the network.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

PROGRAMS: Final = Path(__file__).parent / "kafka"
REPOSITORY: Final = Path(__file__).parents[2]
OLDEST_JAVA: Final = 17
# What the dump tool says when a file and its claims disagree; its exit code stays 0.
COMPLAINTS: Final = (
    "Mismatches in",
    "Found timestamp mismatch",
    "Found out of order timestamp",
    "indexed offsets are not found",
    "Non-consecutive offsets",
    "invalid bytes",
    "isvalid: false",
    "skipping.",  # a record that the chosen decoder cannot decode
    "Ignoring unknown file",
    "Snapshot is corrupt",
    "Snapshot contained",
    "Snapshot failed schema",
    "Exception",
)


class KafkaToolError(AssertionError):
    """A Java program ended with an error; the message has its output."""


def kafka_version() -> str:
    found = re.search(r"<kafka\.version>(.*)</kafka\.version>", (PROGRAMS / "pom.xml").read_text())
    assert found, "tests/support/kafka/pom.xml names no kafka.version"
    return found[1]


def jar_directory() -> Path:
    return REPOSITORY / ".cache" / f"kafka-{kafka_version()}"


@cache
def missing_tool() -> str | None:
    """What this machine lacks to run Apache Kafka, or None."""
    java = shutil.which("java")
    if java is None:
        return f"java (a JDK, version {OLDEST_JAVA} or newer) is not on the PATH"
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', said)
    if found is None or int(found[1]) < OLDEST_JAVA:
        return f"java is too old: {OLDEST_JAVA} or newer is needed, `java -version` says {said.splitlines()[:1]}"
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False).stdout
    if "jdk.compiler" not in modules:
        return "java is only a runtime: the JDK with the module jdk.compiler is needed"
    if not (jar_directory() / "complete").exists() and shutil.which("mvn") is None:
        return "mvn (Apache Maven) is not on the PATH, and the jars of Apache Kafka are not in .cache/ yet"
    return None


def fetch_jars() -> Path:
    """The directory with the jars of Apache Kafka, filled by Maven if it is not complete."""
    return filled(jar_directory(), PROGRAMS / "pom.xml")


def filled(directory: Path, pom: Path) -> Path:
    """The directory, with the jars that the pom names."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (directory.parent / f"{directory.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers may come at once
        _fill(directory, pom)
    return directory


def _fill(directory: Path, pom: Path) -> None:
    complete = directory / "complete"
    if complete.exists() and complete.read_text() == pom.read_text():
        return
    shutil.rmtree(directory, ignore_errors=True)
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    done = subprocess.run([*command, f"-DoutputDirectory={directory}"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KafkaToolError(f"Maven could not copy the jars of {pom}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    complete.write_text(pom.read_text())


@dataclass(frozen=True, slots=True)
class KafkaTools:
    """Kafka's tools on one directory of jars. Each call starts a JVM: pass many files to one call."""

    jars: Path
    options: tuple[str, ...] = ()  # of every JVM

    def java(self, *, heap: str = "256m", log_level: str = "WARN", classes: Path | None = None) -> list[str]:
        """The start of every command line, with these classes, too; -XX flags trade peak speed for a fast start."""
        return [
            "java",
            *self.options,
            f"-Xmx{heap}",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Dfile.encoding=UTF-8",  # Java 17 would take the locale's, and print ? for what that cannot show
            "-Dsun.stdout.encoding=UTF-8",
            f"-Dlog4j2.configurationFile={PROGRAMS / 'log4j2.properties'}",
            f"-Dheadrace.log.level={log_level}",
            "-cp",
            f"{self.jars}/*" if classes is None else f"{self.jars}/*:{classes}",
        ]

    def run(self, main: str, *arguments: str, timeout_seconds: float = 120) -> str:
        """Run a main class, or one of our single-file programs by its file name, and return what it printed."""
        command = [*self.java(), main]
        if main.endswith(".java"):
            program = PROGRAMS / main
            command = [*self.java(classes=self.compiled(program)), program.stem]
        return _run([*command, *arguments], timeout_seconds=timeout_seconds).stdout

    def compiled(self, program: Path) -> Path:
        """The directory with its classes, which is kept: compiling takes longer than most programs run."""
        content = hashlib.sha256(program.read_bytes()).hexdigest()[:16]
        directory = self.jars.parent / "kafka-programs" / f"{program.stem}-{content}"
        if not directory.exists():
            directory.parent.mkdir(exist_ok=True)
            making = tempfile.mkdtemp(dir=directory.parent)
            jars = ":".join(map(str, self.jars.glob("*.jar")))  # only Java itself knows what a * means
            compiler = ["-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", making, "-cp", jars]
            _run([*self.java(), *compiler, str(program)], timeout_seconds=120)
            with contextlib.suppress(OSError):  # another worker was faster
                os.rename(making, directory)
        return directory

    def dump_log(self, files: Iterable[Path], *flags: str) -> str:
        """What Apache Kafka's DumpLogSegments prints about these files; faults are in the text, see `complaints`."""
        names = ",".join(str(file) for file in files)
        command = [*self.java(), "org.apache.kafka.tools.DumpLogSegments", "--files", names, *flags]
        done = _run(command, timeout_seconds=120)
        return done.stdout + done.stderr


def _run(command: Sequence[str], *, timeout_seconds: float) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=timeout_seconds)
    if done.returncode != 0:
        raise KafkaToolError(f"{command} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-6000:]}")
    return done


def sections(dump: str) -> dict[Path, str]:
    """What a dump of many files says about each of them."""
    parts = re.split(r"^Dumping (.*)$", dump, flags=re.MULTILINE)
    return {Path(path): text for path, text in zip(parts[1::2], parts[2::2], strict=True)}


def complaints(dump: str) -> list[str]:
    """The lines in which the dump tool says that something is wrong.

    Gaps between offsets are faults except in compacted topics, see `gaps`; the one that the tool sees before the first
    record of every later segment, since it counts from -1, is none.
    """
    kept = "".join(line for line in dump.splitlines(keepends=True) if not line.startswith("  -1 is followed by"))
    blocks = re.sub(r"Non-consecutive offsets in .*\n(?!  )", "", kept)
    return [line for line in blocks.splitlines() if any(words in line for words in COMPLAINTS)]


def gaps(dump: str) -> list[tuple[int, int]]:
    """The offsets that are followed by another than the next one, as the dump tool found them."""
    found = re.findall(r"^  (\d+) is followed by (\d+)$", dump, flags=re.MULTILINE)
    return [(int(before), int(after)) for before, after in found]
