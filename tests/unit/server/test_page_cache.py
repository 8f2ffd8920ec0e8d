"""What is newest stays in the page cache, whichever log it is in; what is older is written out and given back."""

from itertools import pairwise

import pytest

from headrace.log.chores import WriteOut
from headrace.log.memory_fs import Fault, MemoryFile, MemoryFileSystem
from headrace.server.page_cache import PageCache
from tests.support.log_batches import a_batch
from tests.support.one_node import NOW_MS, OneNode

GROWTH_BYTES = 1000
KEPT_BYTES = 3000
LOG_FILE = "00000000000000000000.log"


@pytest.fixture
def fs() -> MemoryFileSystem:
    return MemoryFileSystem()


@pytest.fixture
def node(fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch) -> OneNode:
    monkeypatch.setattr("headrace.server.page_cache.GROWTH_BYTES", GROWTH_BYTES)
    return OneNode(fs)


@pytest.fixture
def cache(node: OneNode) -> PageCache:
    worker: object = node.worker
    return PageCache(node.partitions, worker, KEPT_BYTES)  # type: ignore[arg-type]


def append(node: OneNode, topic: str, size_bytes: int) -> None:
    batch = a_batch(b"v" * (size_bytes - 70))
    node.partition(topic).append(batch, acks=1, now_ms=NOW_MS)


def given_back(node: OneNode) -> list[tuple[str, int, int]]:
    """The files of which something is given back, by the worker's hand, from where and up to where."""
    chores = list(node.worker.chores)
    node.worker.step()
    return [(chore.file.path, chore.start, chore.end) for chore in chores if isinstance(chore, WriteOut)]


def test_what_was_appended_first_is_given_back_first(node: OneNode, cache: PageCache) -> None:
    for topic in ("a", "b"):
        node.create_topic(topic)
    for topic in ("a", "b", "a", "b"):
        append(node, topic, 1100)
        cache.look_at(node.partition(topic))
    first_end = node.partition("a").log.active.size // 2
    assert given_back(node) == [(f"/data/a-0/{LOG_FILE}", 0, first_end), (f"/data/b-0/{LOG_FILE}", 0, first_end)]
    cache.look_at(node.partition("a"))
    assert given_back(node) == []


def test_what_is_given_back_continues_what_was_given_back_before(node: OneNode, cache: PageCache) -> None:
    node.create_topic("a")
    ends = [0]
    for _ in range(3):
        append(node, "a", 5000)
        cache.look_at(node.partition("a"))
        ends.append(node.partition("a").log.active.size)
    path = f"/data/a-0/{LOG_FILE}"
    assert given_back(node) == [(path, start, end) for start, end in pairwise(ends)]


def test_what_is_given_back_is_written_out(
    fs: MemoryFileSystem, node: OneNode, cache: PageCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, int, int]] = []
    monkeypatch.setattr(MemoryFile, "write_out", lambda _, start, end: done.append(("written", start, end)))
    monkeypatch.setattr(MemoryFile, "drop_pages", lambda _, end: done.append(("dropped", 0, end)))
    node.create_topic("a")
    append(node, "a", 5000)
    cache.look_at(node.partition("a"))
    node.worker.step()
    end = node.partition("a").log.active.size
    assert done == [("written", 0, end), ("dropped", 0, end)]


def test_small_growth_waits_until_there_is_more(node: OneNode, cache: PageCache) -> None:
    node.create_topic("a")
    for _ in range(3):
        append(node, "a", 400)
        cache.look_at(node.partition("a"))
    append(node, "a", 5000)
    cache.look_at(node.partition("a"))
    assert [end for _, _, end in given_back(node)] == [
        3 * len(a_batch(b"v" * 330)),
        node.partition("a").log.active.size,
    ]


def test_a_segment_that_was_rolled_is_left_to_its_own_chores(node: OneNode, cache: PageCache) -> None:
    node.create_topic("a")
    node.create_topic("b")
    append(node, "a", 2000)
    cache.look_at(node.partition("a"))
    node.partition("a").log.roll(now_ms=NOW_MS)
    append(node, "b", 2000)
    cache.look_at(node.partition("b"))
    assert given_back(node) == []


def test_a_topic_that_was_deleted_is_left_alone(node: OneNode, cache: PageCache) -> None:
    node.create_topic("a")
    node.create_topic("b")
    append(node, "a", 2000)
    cache.look_at(node.partition("a"))
    node.delete_topic("a")
    append(node, "b", 2000)
    cache.look_at(node.partition("b"))
    assert given_back(node) == []


def test_records_that_were_cut_off_and_written_anew_count_again(node: OneNode, cache: PageCache) -> None:
    node.create_topic("a")
    log = node.partition("a").log
    append(node, "a", 2000)
    append(node, "a", 2000)
    cache.look_at(node.partition("a"))
    assert len(given_back(node)) == 1
    log.truncate_to(1)
    append(node, "a", 4000)
    cache.look_at(node.partition("a"))
    assert [end for _, _, end in given_back(node)] == [log.active.size]


def test_while_the_worker_has_no_room_everything_stays(node: OneNode, cache: PageCache) -> None:
    node.create_topic("a")
    append(node, "a", 5000)
    node.worker.has_room = False
    cache.look_at(node.partition("a"))
    assert given_back(node) == []
    node.worker.has_room = True
    cache.look_at(node.partition("a"))
    assert len(given_back(node)) == 1


def test_a_log_whose_pages_cannot_be_written_takes_no_more(
    fs: MemoryFileSystem, node: OneNode, cache: PageCache
) -> None:
    node.create_topic("a")
    append(node, "a", 5000)
    cache.look_at(node.partition("a"))
    fs.faults.append(Fault("sync", path_end=LOG_FILE))
    node.worker.step()
    failure = node.partition("a").log.failure
    assert failure is not None
    assert "a sync failed" in str(failure)
