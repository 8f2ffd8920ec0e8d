"""Topics as Arrow tables, and tables into topics, a million records per second and more.

    import headrace.arrow

    table = headrace.arrow.read("orders", "localhost:9092")                     # all of it, as a pyarrow.Table
    for batch in headrace.arrow.scan("orders", "localhost:9092", start=-1_000): # bounded memory
        ...
    headrace.arrow.write(table, "copy", "localhost:9092", key="key")

`table.to_pandas()` and `polars.from_arrow(table)` go on from there. Needs `pip install headrace[arrow]`.
"""

try:
    from headrace.client.arrow_ranges import Group
    from headrace.client.arrow_read import read, scan
    from headrace.client.arrow_write import write
except ModuleNotFoundError as error:
    if error.name not in ("numpy", "pyarrow"):
        raise
    raise ModuleNotFoundError(
        f"headrace.arrow needs {error.name}, which is not installed: pip install 'headrace[arrow]'", name=error.name
    ) from None

__all__ = ["Group", "read", "scan", "write"]
