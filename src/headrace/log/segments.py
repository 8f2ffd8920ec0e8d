"""The segments of one log, in order of their base offsets, and what is done to them as files."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from headrace.log.config import LogConfig
from headrace.log.fs import FileSystem
from headrace.log.names import DELETED, SEGMENT_SUFFIXES
from headrace.log.open_files import OpenFiles
from headrace.log.segment import Segment


class Segments:
    """Invariant: base offsets grow strictly. The last one is active; only an opening log has none."""

    __slots__ = ("_bases", "_directory", "_fs", "_open_files", "_segments")

    def __init__(self, fs: FileSystem, directory: str, open_files: OpenFiles) -> None:
        self._fs = fs
        self._directory = directory
        self._open_files = open_files
        self._segments: list[Segment] = []
        self._bases: list[int] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, index: int) -> Segment:
        return self._segments[index]

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def sealed(self) -> Sequence[Segment]:
        return self._segments[:-1]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    def index_of(self, offset: int) -> int:
        """The segment in whose range `offset` is; the first one for an offset before it."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def from_offset(self, offset: int) -> Sequence[Segment]:
        """The segment in whose range `offset` is, and all after it."""
        return self._segments[self.index_of(offset) :]

    def end_offset_of(self, index: int, log_end_offset: int) -> int:
        """Where the range of a segment ends (exclusive)."""
        return self._bases[index + 1] if index + 1 < len(self._bases) else log_end_offset

    def wholly_before(self, offset: int) -> Sequence[Segment]:
        """The segments, never the active one, whose range ends at or before `offset`."""
        return self._segments[: bisect_right(self._bases, offset, 1) - 1]

    def open(self, base_offset: int, size: int, config: LogConfig, *, now_ms: int) -> None:
        """A segment that is there, at the end of the row."""
        self._add(
            Segment(self._fs, self._directory, base_offset, size, config, open_files=self._open_files, now_ms=now_ms)
        )

    def open_active(self, base_offset: int, config: LogConfig, *, now_ms: int) -> None:
        """The last one that is there. Its file tells the size: who opens a log reads the end of it next."""
        self.open(base_offset, 0, config, now_ms=now_ms)
        self.active.size = self.active.seen_bytes = self.active.file.size

    def create(self, base_offset: int, config: LogConfig, *, now_ms: int) -> Segment:
        """A new, empty segment at the end of the row. Raises OSError, and has then changed nothing."""
        segment = Segment.create(
            self._fs, self._directory, base_offset, config, open_files=self._open_files, now_ms=now_ms
        )
        self._add(segment)
        return segment

    def _add(self, segment: Segment) -> None:
        assert not self._bases or segment.base_offset > self._bases[-1], (segment.base_offset, self._bases)
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def take_out(self, segments: Sequence[Segment]) -> list[str]:
        """Out of the row, their files renamed to `.deleted`; the paths to remove. Raises OSError."""
        for segment in segments:
            segment.files.rename(DELETED)
            segment.close()
            index = self._segments.index(segment)
            del self._segments[index]
            del self._bases[index]
        return deleted_paths(segments)

    def cut_off(self, segments: Sequence[Segment]) -> list[str]:
        """The last ones, for good: the log will write their offsets anew. Raises OSError.

        One after the other from the end, each safe before the next: no crash may leave a hole, or bring one back.
        """
        removable = []
        for segment in reversed(segments):
            removable += self.take_out([segment])
            self._fs.sync_dir(self._directory)
        return removable

    def replace(self, old: Sequence[Segment], new: Segment) -> list[str]:
        """A compacted segment for a run of old ones, whose files are renamed already; the paths to remove."""
        start = self._segments.index(old[0])
        stop = start + len(old)
        assert self._segments[start:stop] == list(old), (self._segments, old)
        assert stop < len(self._segments), "the active segment is never compacted"
        self._segments[start:stop] = [new]
        self._bases = [segment.base_offset for segment in self._segments]
        for segment in (*old, new):
            segment.close()
        return deleted_paths(old)

    def close(self) -> None:
        for segment in self._segments:
            segment.close()


def deleted_paths(segments: Iterable[Segment]) -> list[str]:
    return [segment.path(suffix) for segment in segments for suffix in SEGMENT_SUFFIXES]
