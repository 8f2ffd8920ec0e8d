"""The broker's own loggers as configs that a running broker can change: how much each writes.

Kafka's names of levels are used, and `root` stands for the broker as a whole: the logger `headrace`. What else runs in
the same Python process logs as it likes, and is neither shown nor touched.
"""

import logging
from typing import Final

ROOT: Final = "root"
_PACKAGE: Final = "headrace"
_INSIDE: Final = f"{_PACKAGE}."
_TRACE: Final = 5
LEVELS: Final = {
    "TRACE": _TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def levels() -> dict[str, str]:
    """All loggers of the broker, and the level that holds for each."""
    known = logging.root.manager.loggerDict  # with place holders for names that only others are under
    names = [name for name, each in known.items() if isinstance(each, logging.Logger) and name.startswith(_INSIDE)]
    return {ROOT: _level_of(_PACKAGE), **{name: _level_of(name) for name in sorted(names)}}


def set_level(name: str, level: str | None) -> None:
    """None: as the one above it says."""
    logging.getLogger(_PACKAGE if name == ROOT else name).setLevel(logging.NOTSET if level is None else LEVELS[level])


def _level_of(name: str) -> str:
    effective = logging.getLogger(name).getEffectiveLevel()
    return next((word for word, number in LEVELS.items() if effective <= number), "FATAL")
