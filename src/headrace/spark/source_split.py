"""From ranges of offsets to tasks: large ranges are split, with the rules of Spark's own Kafka source. Pure.

`maxRecordsPerPartition` cuts every range into pieces that are no larger. `minPartitions` then asks for more pieces, in
proportion to the size of the ranges; those which get one piece only are left out of the proportion of the others.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from headrace.spark.source_offsets import OffsetRange


def split(
    ranges: Sequence[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """One piece for each task, in the order of the ranges."""
    pieces = [each for each in ranges if each.size > 0]
    if max_records is not None:
        pieces = [piece for each in pieces for piece in _pieces(each, math.ceil(each.size / max_records))]
    if min_partitions is not None and len(pieces) < min_partitions:
        pieces = _in_proportion(pieces, min_partitions)
    return pieces


def _in_proportion(ranges: Sequence[OffsetRange], wanted: int) -> list[OffsetRange]:
    total = sum(each.size for each in ranges)
    whole = {each for each in ranges if _share(each.size, total, wanted) == 1}
    divided = total - sum(each.size for each in whole)
    wanted_of_divided = max(wanted - len(whole), 1)
    return [
        piece
        for each in ranges
        for piece in _pieces(each, 1 if each in whole else _share(each.size, divided, wanted_of_divided))
    ]


def _share(size: int, total: int, wanted: int) -> int:
    return max(math.floor(size / total * wanted + 0.5), 1)  # Java rounds a half up, Python to the even one


def _pieces(whole: OffsetRange, count: int) -> list[OffsetRange]:
    """`count` pieces of about the same size; fewer if there are not so many offsets."""
    edges = [whole.start + whole.size * number // count for number in range(count + 1)]
    return [whole._replace(start=first, end=last) for first, last in pairwise(edges) if first < last]
