"""Functions of a program's own files, sent to Spark's workers as they are: the workers cannot import those files."""

from pyspark import cloudpickle

from headrace.streams.loading import own_modules


def ship(directory: str) -> None:
    """From now on, what modules below this directory define is sent by value."""
    for module in own_modules(directory):
        cloudpickle.register_pickle_by_value(module)
