"""What has gone wrong in Spark, in one sentence: of a page of Java, the part that a person needs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.errors import PySparkException

from headrace.streams.errors import QueryFailedError

_MAX_CHARACTERS: Final = 2_000
# Behind these words stands what a person needs of a failure that has come through Java; the first that is there counts.
_CAUSES: Final = ("[USER_RAISED_EXCEPTION]", "RuntimeError:", "headrace.client.errors.", "headrace.spark.")
_FIRST_LINES: Final = 3


@contextmanager
def told_shortly() -> Iterator[None]:
    """Raises QueryFailedError for what Spark raises."""
    try:
        yield
    except PySparkException as error:
        raise QueryFailedError(short(str(error))) from error


def short(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for cause in _CAUSES:
        found = next((line for line in lines if cause in line and not line.startswith(("File ", "at "))), None)
        if found is not None:
            return found[found.index(cause) :].removeprefix("[USER_RAISED_EXCEPTION]").strip()[:_MAX_CHARACTERS]
    return "\n  ".join(lines[:_FIRST_LINES])[:_MAX_CHARACTERS]
