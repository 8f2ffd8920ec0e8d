"""What can be read of a file without waiting for the disk, and how to wait for the disk before it is read.

Linux refuses a read that would have to wait (`RWF_NOWAIT`), and begins to read ahead instead. Where nobody can tell, as
on other systems and on a few file systems, everything counts as being there: whoever reads waits, as ever.
"""

import errno
import os
from typing import Final

_NO_WAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)
_CANNOT_TELL: Final = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
_one_byte: Final = (bytearray(1),)  # which nobody looks at


def read_cached(fd: int, position: int, size: int) -> bytes | None:
    """All of it, or None if the disk would have to be waited for, or if the file is shorter. Raises OSError."""
    if _NO_WAIT:
        data = bytearray(size)
        try:
            return bytes(data) if os.preadv(fd, (data,), position, _NO_WAIT) == size else None
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _CANNOT_TELL:
                raise
    found = os.pread(fd, size, position)
    return found if len(found) == size else None


def is_cached(fd: int, position: int) -> bool:
    """Can this byte be read at once?"""
    if not _NO_WAIT:
        return True
    try:
        os.preadv(fd, _one_byte, position, _NO_WAIT)
    except BlockingIOError:
        return False
    except OSError:  # whoever reads will hear of it, if it is one
        return True
    return True


def load(fd: int, start: int, end: int) -> None:
    """Return when these bytes can be read without waiting, as far as memory allows. Raises OSError."""
    with open(os.devnull, "wb", buffering=0) as nowhere:
        while start < end:
            size = os.sendfile(nowhere.fileno(), fd, start, end - start)
            if not size:
                return
            start += size
