"""Where no dead letters are wanted, the first row that fails stops the query, with a sentence for whoever reads it."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

_ADVICE: Final = ". Give the app dead_letters=, a topic for such records, to go on without them"


def stopped_by(rows: DataFrame, error: Column, *, verdict: str, operator: str = "") -> DataFrame:
    """The rows, all of which must have no error: `<operator><which record> <verdict>: <error>`."""
    parts = [F.lit(operator), _place(rows), F.lit(f" {verdict}: "), error, F.lit(_ADVICE)]
    stops = F.when(error.isNotNull(), F.raise_error(F.concat(*parts)).cast("boolean")).otherwise(F.lit(True))
    return rows.where(stops)


def _place(rows: DataFrame) -> Column:
    """Which record it was; behind an operator with state a row is none any more."""
    if "_offset" not in rows.columns:
        return F.lit("a row")
    of_topic = [F.col("_topic"), F.lit("-"), F.col("_partition")]
    record = F.concat(F.lit("the record at offset "), F.col("_offset"), F.lit(" of "), *of_topic)
    return F.coalesce(record, F.lit("a row"))  # of a DataFrame
