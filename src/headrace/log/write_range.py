"""Bring a part of a file that grows to the disk, without a sync.

A sync of the file would do, too. But it also commits the journal of the file system, for which everybody waits who
appends meanwhile: some tens of milliseconds at a time, a third of all time while 1 MB batches are written. Linux can
write pages and nothing else; Python has no name for that, so it is asked for by way of the C library. Elsewhere the
file is synced.

Nothing is promised about a power cut: neither the size of the file nor the disk's own cache is written.
"""

import errno
import os
from collections.abc import Callable
from functools import cache
from typing import Any, Final

# Of sync_file_range: wait for writes that are under way, write what has changed since, and wait for that.
_WAIT_BEFORE: Final = 1
_WRITE: Final = 2
_WAIT_AFTER: Final = 4
_NOT_HERE: Final = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)  # of systems that only look like Linux


def write_range(fd: int, start: int, end: int) -> None:
    """Raises OSError; it then is as after a sync that failed."""
    call = _sync_file_range()
    if call is None:
        os.fdatasync(fd)
        return
    if call(fd, start, end - start, _WAIT_BEFORE | _WRITE | _WAIT_AFTER):
        import ctypes

        code = ctypes.get_errno()
        if code not in _NOT_HERE:
            raise OSError(code, os.strerror(code))
        os.fdatasync(fd)


@cache
def _sync_file_range() -> Callable[..., Any] | None:
    """None where there is no such call. `ctypes` takes milliseconds to load: only who writes much needs it."""
    import ctypes

    call = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return call
