"""Where a closed segment ends: by its last index entry, and the few batches behind that."""

from headrace.log.index import OFFSET_ENTRY_SIZE, OffsetEntry, unpack_offset_entry
from headrace.log.index_files import read_last_entry
from headrace.log.names import OFFSET_INDEX
from headrace.log.segment import Segment


def find_end_offset(segment: Segment) -> int:
    """The offset after the last batch. Raises CorruptBatchError if the file does not end with a whole batch."""
    end_offset = segment.base_offset
    for *_, last_offset in segment.from_entry(_last_entry(segment), 0, segment.size):
        end_offset = last_offset + 1
    return end_offset


def _last_entry(segment: Segment) -> OffsetEntry | None:
    """The index is not loaded for it: a broker opens thousands of logs, and few are busy at once."""
    if segment.size <= segment.config.index_interval_bytes:
        return None  # there is none, or hardly anything before it
    if not segment.are_indexes_loaded:
        data = read_last_entry(segment.files, OFFSET_INDEX, OFFSET_ENTRY_SIZE)
        if data is not None:
            return unpack_offset_entry(data, segment.base_offset) if data else None
    return segment.offsets[-1] if len(segment.offsets) else None
