"""The file system in memory: what a crash keeps, and how it fails on demand."""

import errno
from random import Random

import pytest

from headrace.log.memory_fs import Fault, MemoryFileSystem, PowerCut


@pytest.fixture
def fs() -> MemoryFileSystem:
    fs = MemoryFileSystem()
    fs.make_dir("/d")
    fs.sync_dir("/")
    return fs


def contents_after_crashes(fs: MemoryFileSystem, path: str, crashes: int = 200) -> set[bytes | None]:
    found: set[bytes | None] = set()
    for seed in range(crashes):
        survivor = fs.crash(Random(seed))
        found.add(survivor.read_bytes(path) if survivor.exists(path) else None)
    return found


def test_what_was_synced_with_its_name_always_survives(fs: MemoryFileSystem) -> None:
    file = fs.open("/d/a", create=True)
    file.append(b"safe")
    file.sync()
    fs.sync_dir("/d")
    assert contents_after_crashes(fs, "/d/a") == {b"safe"}


def test_a_synced_file_without_a_synced_name_may_be_lost(fs: MemoryFileSystem) -> None:
    file = fs.open("/d/a", create=True)
    file.append(b"safe")
    file.sync()
    assert contents_after_crashes(fs, "/d/a") == {b"safe", None}


def test_of_an_unsynced_append_any_prefix_survives(fs: MemoryFileSystem) -> None:
    file = fs.open("/d/a", create=True)
    file.append(b"ab")
    file.sync()
    fs.sync_dir("/d")
    file.append(b"cdef")
    found = contents_after_crashes(fs, "/d/a", 1000)
    assert found >= {b"ab", b"abc", b"abcd", b"abcde", b"abcdef"}
    assert all(content is not None and content.startswith(b"ab") for content in found)
    assert b"ab\0\0\0\0" in found, "pages written out of order leave holes of zeros"


def test_an_unsynced_truncation_may_be_undone(fs: MemoryFileSystem) -> None:
    file = fs.open("/d/a", create=True)
    file.append(b"abcd")
    file.sync()
    fs.sync_dir("/d")
    file.truncate(1)
    assert contents_after_crashes(fs, "/d/a") == {b"abcd", b"a"}


def test_an_unsynced_rename_happened_or_did_not(fs: MemoryFileSystem) -> None:
    file = fs.open("/d/a", create=True)
    file.sync()
    fs.sync_dir("/d")
    fs.rename("/d/a", "/d/b")
    names = {tuple(fs.crash(Random(seed)).list_dir("/d")) for seed in range(50)}
    assert names == {("a",), ("b",)}


def test_unsynced_changes_of_different_names_survive_independently(fs: MemoryFileSystem) -> None:
    for name in "ab":
        fs.open(f"/d/{name}", create=True).sync()
    names = {tuple(sorted(fs.crash(Random(seed)).list_dir("/d"))) for seed in range(100)}
    assert names == {(), ("a",), ("b",), ("a", "b")}


def test_changes_of_one_name_survive_in_order(fs: MemoryFileSystem) -> None:
    fs.open("/d/a", create=True).sync()
    fs.rename("/d/a", "/d/b")
    fs.remove("/d/b")
    names = {tuple(fs.crash(Random(seed)).list_dir("/d")) for seed in range(100)}
    assert names == {(), ("a",), ("b",)}


def test_a_crash_is_the_same_for_the_same_seed(fs: MemoryFileSystem) -> None:
    for name in "abcdef":
        fs.open(f"/d/{name}", create=True).append(name.encode() * 50)

    def state(survivor: MemoryFileSystem) -> dict[str, bytes]:
        return {name: survivor.read_bytes(f"/d/{name}") for name in sorted(survivor.list_dir("/d"))}

    assert state(fs.crash(Random(5))) == state(fs.crash(Random(5)))


def test_an_atomic_write_is_old_or_new_wherever_the_power_is_cut(fs: MemoryFileSystem) -> None:
    fs.write_atomically("/d/a", b"old")
    start = fs.steps
    fs.write_atomically("/d/a", b"new")
    steps = fs.steps - start
    for step in range(steps):
        for seed in range(20):
            fs = MemoryFileSystem()
            fs.make_dir("/d")
            fs.sync_dir("/")
            fs.write_atomically("/d/a", b"old")
            fs.power_steps = step
            with pytest.raises(PowerCut):
                fs.write_atomically("/d/a", b"new")
            assert fs.crash(Random(seed)).read_bytes("/d/a") in (b"old", b"new")


def test_a_full_disk_takes_what_fits_and_then_fails(fs: MemoryFileSystem) -> None:
    file = fs.open("/d/a", create=True)
    file.append(b"1234")
    fs.capacity_bytes = 6
    with pytest.raises(OSError, match="No space left") as caught:
        file.append(b"5678")
    assert caught.value.errno == errno.ENOSPC
    assert (file.size, fs.read_bytes("/d/a")) == (4, b"1234")
    write, handle = file.raw_writer()
    assert write(handle, b"5678") == 2
    file.truncate(0)
    file.append(b"123456")


def test_a_fault_strikes_where_and_when_it_was_told_to(fs: MemoryFileSystem) -> None:
    fs.faults.append(Fault("sync", path_end=".log", skip=1, times=2))
    log = fs.open("/d/a.log", create=True)
    other = fs.open("/d/a.index", create=True)
    log.sync()
    other.sync()
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            log.sync()
    log.sync()


def test_an_append_that_can_neither_finish_nor_be_cut_off_tears_the_file(fs: MemoryFileSystem) -> None:
    file = fs.open("/d/a", create=True)
    file.append(b"good")
    fs.faults = [Fault("append", written_bytes=2), Fault("truncate")]
    with pytest.raises(OSError, match="Input/output error"):
        file.append(b"torn")
    assert (file.size, file.torn) == (4, True)
    assert fs.read_bytes("/d/a") == b"goodto"


def test_a_closed_file_is_of_no_use(fs: MemoryFileSystem) -> None:
    file = fs.open("/d/a", create=True)
    file.close()
    for act in (lambda: file.append(b"x"), lambda: file.read(0, 1), file.sync, file.drop_pages):
        with pytest.raises(OSError, match="Bad file descriptor"):
            act()
    with pytest.raises(OSError, match="no descriptor"):
        fs.open("/d/a").fileno()


def test_a_removed_file_can_still_be_read_by_who_has_it_open(fs: MemoryFileSystem) -> None:
    file = fs.open("/d/a", create=True)
    file.append(b"bytes")
    fs.remove("/d/a")
    assert file.read(0, 5) == b"bytes"


def test_files_and_directories_are_not_mistaken_for_one_another(fs: MemoryFileSystem) -> None:
    fs.open("/d/a", create=True)
    with pytest.raises(IsADirectoryError):
        fs.open("/d")
    with pytest.raises(NotADirectoryError):
        fs.list_dir("/d/a")
    with pytest.raises(FileExistsError):
        fs.make_dir("/d/a/b")


def test_files_know_when_they_changed(fs: MemoryFileSystem) -> None:
    fs.now_ms = 5
    file = fs.open("/d/a", create=True)
    assert fs.modified_ms("/d/a") == 5
    fs.now_ms = 9
    file.append(b"x")
    assert fs.modified_ms("/d/a") == 9
