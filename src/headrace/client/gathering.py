"""Parts of requests on their way to one system call: small ones are copied together, large ones stay as they are."""

import socket
from typing import Final

from headrace.protocol.types import Part

JOIN_BELOW_BYTES: Final = 16 * 1024  # smaller parts are copied together: a system call per part costs more
MAX_PARTS_PER_SEND: Final = 512  # below the kernel's limit for one gathered write (IOV_MAX, 1024)


def gather(parts: list[Part]) -> list[Part]:
    """The same bytes in few pieces: neighbours that are small become one."""
    if len(parts) == 1:
        return parts
    if max(map(len, parts)) < JOIN_BELOW_BYTES:  # the usual case, without a loop
        return [b"".join(parts)]
    pieces: list[Part] = []
    small: list[Part] = []
    for part in parts:
        if len(part) < JOIN_BELOW_BYTES:
            small.append(part)
        else:
            if small:
                pieces.append(b"".join(small))
                small = []
            pieces.append(part)
    if small:
        pieces.append(b"".join(small))
    return pieces


def send_some(sock: socket.socket, pieces: list[Part]) -> list[Part]:
    """One system call; what it did not take. Raises OSError."""
    if len(pieces) == 1:
        piece = pieces[0]
        sent = sock.send(piece)
        return [] if sent == len(piece) else [memoryview(piece)[sent:]]
    sent = sock.sendmsg(pieces[:MAX_PARTS_PER_SEND])
    done = 0
    while done < len(pieces) and sent >= len(pieces[done]):
        sent -= len(pieces[done])
        done += 1
    rest = pieces[done:]
    if sent:
        rest[0] = memoryview(rest[0])[sent:]
    return rest
