"""Parts of requests on their way to one system call: small ones are copied together, large ones stay as they are."""

from typing import Final

from headrace.protocol.types import Part

JOIN_BELOW_BYTES: Final = 16 * 1024  # smaller parts are copied together: a system call per part costs more


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
