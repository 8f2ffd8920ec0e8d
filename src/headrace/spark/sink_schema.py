"""The schema of a DataFrame that is to be written, looked at before the first row is computed."""

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.spark.sink_rows import COLUMNS, check_schema


def record_columns(schema: StructType, topic: str | None) -> list[str]:
    """The columns that a record has; others may be of any type. Raises ConfigError if one is not what it must be."""
    fields = [field for field in schema.fields if field.name in COLUMNS]
    check_schema(to_arrow_schema(StructType(fields), timezone="UTC"), topic, columns=schema.names)
    return [field.name for field in fields]
