"""An archive of Apache Kafka's classes, parsed and checked once, which every JVM of the tests maps into its memory.

Made by a broker that starts, is written to and read from, and stops. It stays beside the jars, and belongs to one
Java; a JVM that it does not fit goes on without it.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

import headrace
from tests.support.kafka import ApacheKafka
from tests.support.kafka_tools import KafkaTools

_QUIET: Final = ("-Xlog:disable", "-Xlog:all=error:stderr")  # that it does not fit is no news for anybody


def with_archive(tools: KafkaTools) -> KafkaTools:
    """The same tools on JVMs that start with the archive, which is made if it is not there."""
    java = shutil.which("java")
    assert java is not None, "without java no test gets here"
    build = f"{os.path.realpath(java)} {os.stat(java).st_mtime_ns} {tools.jars}"
    path = tools.jars / f"{hashlib.sha256(build.encode()).hexdigest()[:16]}.jsa"
    with (tools.jars.parent / f"{tools.jars.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers may come at once
        if not path.exists():
            _make(tools, path)
    return replace(tools, options=(f"-XX:SharedArchiveFile={path}", *_QUIET))


def _make(tools: KafkaTools, path: Path) -> None:
    written = path.with_suffix(".new")
    making = replace(tools, options=(f"-XX:ArchiveClassesAtExit={written}", *_QUIET))
    scratch = tempfile.TemporaryDirectory(prefix="kafka-archive-")
    with scratch as directory, ApacheKafka(Path(directory), making) as kafka:
        _exercise(kafka.address)
    written.replace(path)


def _exercise(address: str) -> None:
    """What most tests do with a broker."""
    with headrace.Admin(address) as admin:
        admin.create_topic("trained", partitions=2)
    with headrace.Producer(address, transactional_id="training") as producer, producer.transaction():
        for number in range(10):
            producer.send("trained", value=b"%d" % number, key=b"%d" % number)
    with headrace.Consumer(address, group="training", topics="trained", auto_offset_reset="earliest") as consumer:
        read = 0
        while read < 10:
            read += len(consumer.poll(1.0))
