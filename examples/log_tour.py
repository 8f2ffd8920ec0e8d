"""A tour of the log: append, read, retry, abort, crash, recover, compact.

Everything that it prints was done just then, in a directory of its own.
"""

import os
import tempfile
import time
from dataclasses import replace
from typing import Final

from rich.console import Console
from rich.table import Table

from headrace.log.append import Origin
from headrace.log.checkpoints import TopicPartition
from headrace.log.cleaner import Cleaner
from headrace.log.config import LogConfig
from headrace.log.fs import RealFileSystem
from headrace.log.log import Log
from headrace.log.open_files import OpenFiles
from headrace.protocol.batch import read_header
from headrace.protocol.records import (
    NewRecord,
    Record,
    build_batch,
    build_end_transaction_marker,
    iter_batches,
    read_records,
)

USERS: Final = (b"alice", b"bob", b"carol")
BATCHES: Final = 400
CONFIG: Final = LogConfig(segment_bytes=16 << 10)  # a real segment has 1 GB
COMPACTED: Final = replace(CONFIG, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
FS: Final = RealFileSystem()
OPEN_FILES: Final = OpenFiles(16)
PARTITION: Final = TopicPartition("orders", 0)

console = Console(highlight=False)


def main() -> None:
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="headrace-tour-") as data:
        directory = f"{data}/{PARTITION}"
        log = open_log(directory, clean=True)
        write(log)
        read(log)
        retry(log)
        abort(log)
        log = crash_and_recover(log)
        compact(log)
        log.close()
        show_files(directory)
    console.print(
        f"\n[dim]The tour took {time.perf_counter() - started:.2f} seconds; its directory is gone again.[/dim]"
    )


def open_log(directory: str, *, clean: bool) -> Log:
    return Log.open(FS, directory, CONFIG, clean=clean, now_ms=now_ms(), open_files=OPEN_FILES)


def write(log: Log) -> None:
    chapter("Append", "Batches get their offsets stamped in, and are written as they came.")
    start_ms = now_ms() - BATCHES
    batches = [
        build_batch([NewRecord(start_ms + number, user, f"order {number}".encode()) for user in USERS])
        for number in range(BATCHES)
    ]
    started = time.perf_counter()
    for batch in batches:
        log.append(batch, leader_epoch=0, now_ms=now_ms())
    micros = (time.perf_counter() - started) / BATCHES * 1e6
    log.raise_high_watermark(log.log_end_offset)
    say(f"{log.log_end_offset:,} records in {BATCHES} batches, {micros:.1f} us a batch")
    say(f"{len(log.segments)} segments, {log.size_bytes:,} bytes")


def read(log: Log) -> None:
    chapter("Read", "A slice of a file: whole batches, sent without a copy.")
    piece = log.read(600, max_bytes=2_000)
    assert piece.file is not None
    say(f"from offset 600: {len(piece):,} bytes at byte {piece.position:,} of {os.path.basename(piece.file.path)}")
    for record in records_in(piece.read())[:3]:
        say(f"  offset {record.offset}: {text(record.key)} -> {text(record.value)}")
    wanted_ms = read_header(piece.read()).max_timestamp + 50
    found = log.find_timestamp(wanted_ms)
    assert found is not None
    say(f"50 ms after that: offset {found.offset}")


def retry(log: Log) -> None:
    chapter("Retry", "Batches are numbered: what is sent twice is stored once.")
    batch = build_batch(
        [NewRecord(now_ms(), b"dave", b"order, sent twice")], producer_id=7, producer_epoch=0, base_sequence=0
    )
    for attempt in ("first", "second"):
        result = log.append(bytearray(batch), leader_epoch=0, now_ms=now_ms())
        say(f"{attempt} time: offset {result.base_offset}{', known already' if result.duplicate else ''}")


def abort(log: Log) -> None:
    chapter("Abort", "Committed readers wait for a transaction, and skip an aborted one.")
    for number in range(3):
        batch = build_batch(
            [NewRecord(now_ms(), b"erin", f"never happened {number}".encode())],
            producer_id=8,
            producer_epoch=0,
            base_sequence=number,
            transactional=True,
        )
        log.append(batch, leader_epoch=0, now_ms=now_ms())
    log.raise_high_watermark(log.log_end_offset)
    say(f"open: the log ends at {log.log_end_offset}, but is stable only up to {log.last_stable_offset}")
    marker = build_end_transaction_marker(
        commit=False, coordinator_epoch=0, producer_id=8, producer_epoch=0, timestamp=now_ms()
    )
    log.append(marker, leader_epoch=0, now_ms=now_ms(), origin=Origin.COORDINATOR)
    log.raise_high_watermark(log.log_end_offset)
    (aborted,) = log.aborted_transactions(0, log.log_end_offset)
    say(f"aborted: stable up to {log.last_stable_offset}; skip offsets {aborted.first_offset} to {aborted.last_offset}")


def crash_and_recover(log: Log) -> Log:
    chapter("Crash", "Nothing is closed, and half a batch is in the file.")
    torn = build_batch([NewRecord(now_ms(), b"frank", b"half an order")])
    with open(log.active.path(".log"), "ab") as file:
        file.write(torn[: len(torn) // 2])
    say(f"{len(torn) // 2} bytes of {len(torn)} at the end of {os.path.basename(log.active.path('.log'))}")
    started = time.perf_counter()
    recovered = open_log(log.directory, clean=False)
    seconds = time.perf_counter() - started
    report = recovered.recovery_report
    assert report is not None
    say(f"recovered in {seconds * 1000:.1f} ms: read {report.read_bytes:,} bytes, cut {report.cut_bytes}")
    say(f"the log ends at {recovered.log_end_offset} as before, and knows its {len(recovered.producers)} producers")
    recovered.raise_high_watermark(recovered.log_end_offset)
    return recovered


def compact(log: Log) -> None:
    chapter("Compact", "Of each key the newest record stays. Offsets never change.")
    log.update_config(COMPACTED)
    log.roll(now_ms=now_ms())
    do_chores(log)
    before, count = log.size_bytes, count_records(log)
    cleaner = Cleaner(FS, OPEN_FILES, {})
    plan = cleaner.plan(PARTITION, log, now_ms=now_ms())
    assert plan is not None
    outcome = plan.run(time.sleep)
    assert cleaner.finish(log, plan, outcome)
    do_chores(log)
    say(f"{count:,} records in {before:,} bytes -> {count_records(log)} records in {log.size_bytes:,} bytes")
    offset = log.log_start_offset
    while piece := log.read(offset, max_bytes=1 << 20):
        for position, header in iter_batches(data := piece.read()):
            offset = header.next_offset
            for record in [] if header.is_control else read_records(data, position):
                say(f"  offset {record.offset}: {text(record.key)} -> {text(record.value)}")


def show_files(directory: str) -> None:
    chapter("Files", "Kafka's own format: its tools read it, and it could go on from here.")
    table = Table(box=None, padding=(0, 2), show_header=False)
    for name in sorted(os.listdir(directory)):
        table.add_row(name, f"{os.path.getsize(f'{directory}/{name}'):,} bytes")
    console.print(table)


def do_chores(log: Log) -> None:
    """What a broker gives to its worker thread: syncs, and files to remove."""
    for chore in log.take_chores():
        chore.run()
        chore.done()


def count_records(log: Log) -> int:
    count, offset = 0, log.log_start_offset
    while piece := log.read(offset, max_bytes=1 << 20):
        for _, header in iter_batches(piece.read()):
            offset = header.next_offset
            count += 0 if header.is_control else header.record_count
    return count


def records_in(data: bytes) -> list[Record]:
    return [record for position, _ in iter_batches(data) for record in read_records(data, position)]


def text(content: bytes | None) -> str:
    return "null" if content is None else content.decode()


def chapter(title: str, about: str) -> None:
    console.print(f"\n[bold cyan]{title}[/bold cyan]  [dim]{about}[/dim]")


def say(line: str) -> None:
    console.print(f"  {line}")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    main()
