"""What can be wrong with a pipeline before it runs. All of it is found where it is written, not when Spark starts."""

import difflib
from collections.abc import Iterable

_LISTED = 12  # more names than these make a sentence that nobody reads


class PlanError(ValueError):
    """A pipeline that cannot be: the sentence says what, where and what to do."""


class UnknownColumnError(PlanError):
    """An expression names a column which is not there."""


class CannotRunError(PlanError):
    """A plan that is right, but holds an operator which has no compiler yet."""


class PlanWarning(UserWarning):
    """Something in a pipeline that is probably not what was meant. It runs without it."""


class QueryFailedError(RuntimeError):
    """A query of a running app has failed: the sentence says what has gone wrong."""


def unknown_column(name: str, known: Iterable[str], *, where: str) -> UnknownColumnError:
    names = tuple(known)
    close = nearest(name, names)
    if close is not None:
        return UnknownColumnError(f"{where}: there is no column {name!r}. Did you mean {close!r}?")
    shown = ", ".join(names[:_LISTED]) + (", ..." if len(names) > _LISTED else "")
    return UnknownColumnError(f"{where}: there is no column {name!r}. The columns are: {shown or 'none'}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant; names that differ only in case are the nearest of all."""
    by_fold = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), by_fold, n=1)
    return by_fold[close[0]] if close else None
