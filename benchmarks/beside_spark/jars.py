"""Spark's own Kafka connector, by Maven, once; without Maven there is nobody to compare with."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.support.kafka_tools import REPOSITORY

_POM: Final = Path(__file__).with_name("pom.xml")
_SECONDS: Final = 300


def connector_version() -> str:
    found = re.search(r"<connector\.version>(.*)</connector\.version>", _POM.read_text())
    assert found, f"{_POM} names no connector.version"
    return found[1]


def connector_jars() -> list[Path]:
    """The jars, fetched if need be; none if they cannot be had, which is said."""
    directory = REPOSITORY / ".cache" / f"spark-kafka-{connector_version()}"
    complete = directory / "complete"
    if not (complete.exists() and complete.read_text() == _POM.read_text()):
        shutil.rmtree(directory, ignore_errors=True)
        if not _fetch(directory):
            return []
        complete.write_text(_POM.read_text())
    return sorted(directory.glob("*.jar"))


def _fetch(directory: Path) -> bool:
    maven = shutil.which("mvn")
    if maven is None:
        print("Spark's own connector is not measured: mvn (Apache Maven) is not on the PATH.", file=sys.stderr)
        return False
    command = [maven, "-q", "-B", "-f", str(_POM), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    done = subprocess.run(
        [*command, f"-DoutputDirectory={directory}"], capture_output=True, text=True, check=False, timeout=_SECONDS
    )
    if done.returncode:
        print(f"Spark's own connector is not measured: Maven said {done.stdout[-1000:]}", file=sys.stderr)
    return done.returncode == 0
