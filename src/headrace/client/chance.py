"""Random numbers of the client's own.

It draws in the background: from Python's shared generator, it would change the numbers of a program that has seeded it.
"""

import os
from random import Random
from typing import Final

_own: Final = Random()
os.register_at_fork(after_in_child=_own.seed)  # else all children of a process would try again at the same moments

random: Final = _own.random
