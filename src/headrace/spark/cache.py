"""A directory for what can be made again: `headrace` in the user's cache, as XDG has it."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping


def cache_directory(environment: Mapping[str, str]) -> str:
    """The directory, made if it is not there; where that cannot be, one that is gone when this process ends."""
    home = environment.get("XDG_CACHE_HOME") or os.path.join(
        environment.get("HOME") or os.path.expanduser("~"), ".cache"
    )
    wanted = os.path.join(home, "headrace")
    try:
        os.makedirs(wanted, exist_ok=True)
        if os.access(wanted, os.W_OK | os.X_OK):
            return wanted
    except OSError:
        pass  # a home that is not there, or not ours to write
    made = tempfile.mkdtemp(prefix="headrace-cache-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
