"""Where Spark runs: the address of a master, looked at before Spark looks at it.

Spark itself takes ten seconds to complain about a misspelt one, in a page of Java, and a minute about one that is away.
"""

import os
import re
import socket
from typing import Final

_LOCAL: Final = re.compile(r"local(?:\[ *(\*|[1-9]\d*) *(?:, *[1-9]\d* *)?\])?")
_STANDALONE: Final = re.compile(r"spark://[^/,:\s]+:\d+(?:,[^/,:\s]+:\d+)*")
_OTHERS: Final = re.compile(r"yarn|k8s://\S+|local-cluster\[.*\]")
_CONNECT_SECONDS: Final = 5.0
_FORMS: Final = "local[*] or local[4] for this machine, spark://host:7077, yarn or k8s://https://host:443 for a cluster"


def check_master(master: str) -> None:
    """Raises ValueError if it has no form of Spark's, and ConnectionError if no master answers there."""
    if _LOCAL.fullmatch(master) or _OTHERS.fullmatch(master):
        return
    if not _STANDALONE.fullmatch(master):
        raise ValueError(f"there is no Spark master {master!r}; write {_FORMS}")
    addresses = [address.rsplit(":", 1) for address in master.removeprefix("spark://").split(",")]
    if not any(_answers(host, int(port)) for host, port in addresses):
        raise ConnectionError(
            f"no Spark master answers at {master}; is it running, and is this the address that its page shows?"
        )


def local_cores(master: str) -> int | None:
    """How many tasks run at once in this process; None if they run elsewhere."""
    found = _LOCAL.fullmatch(master)
    if found is None:
        return None
    match found[1]:
        case None:
            return 1
        case "*":
            return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        case number:
            return int(number)


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
    except (OSError, OverflowError):
        return False
    return True
