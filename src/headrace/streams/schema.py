"""Columns and their types, as Spark's DDL writes them: "id long, user string, tags array<string>".

A small parser that needs no Spark. It knows where a column ends and what the simple types are called; what stands
inside struct<>, array<> and map<> is kept as text with its spaces put in order, and Spark judges it. Types have several
spellings (long and bigint): a schema holds the one that Spark prints, so that two equal schemas are equal.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from headrace.streams.errors import PlanError

# What Spark prints for each spelling that it reads.
_SPELLINGS: Final = {
    "bool": "boolean",
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal(10,0)",
    "decimal": "decimal(10,0)",
    "numeric": "decimal(10,0)",
    "str": "string",
}
_SIMPLE: Final = frozenset(
    {"boolean", "tinyint", "smallint", "int", "bigint", "float", "double"}
    | {"string", "binary", "date", "timestamp", "timestamp_ntz", "variant"}
)
_PARAMETRISED: Final = re.compile(r"(?:decimal|dec|numeric)\((\d+)(?:,(\d+))?\)|(?:char|varchar)\(\d+\)")
_NESTED: Final = re.compile(r"(?:struct|array|map)<.*>", re.DOTALL)
_NAME: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([A-Za-z_]\w*))\s*:?\s*")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_OPEN: Final = "<("
_CLOSE: Final = ">)"


class Field(NamedTuple):
    """A column; `type` is None when only Spark can know it."""

    name: str
    type: str | None


Schema = tuple[Field, ...]


def parse_schema(text: str) -> Schema:
    """The columns of a DDL text. Raises PlanError for what is not one, and for two columns of one name."""
    fields = tuple(_field(part, text) for part in _split(text))
    if not fields:
        raise PlanError(f'a schema needs at least one column, such as "id long, user string", and this is {text!r}')
    reject_duplicates((field.name for field in fields), where=f"schema {text!r}")
    return fields


def parse_type(text: str) -> str:
    """One type, in the spelling that Spark prints."""
    written = " ".join(text.split()).lower()
    name = _SPELLINGS.get(written, written)
    if name in _SIMPLE:
        return name
    tight = re.sub(r"\s*([(),])\s*", r"\1", name)
    if found := _PARAMETRISED.fullmatch(tight):
        return tight if found[1] is None else f"decimal({found[1]},{found[2] or 0})"
    if _NESTED.fullmatch(written):
        # The case of names inside a struct matters to those who read it as JSON.
        return re.sub(r"\s*([<>(),:])\s*", r"\1", " ".join(text.split()))
    raise PlanError(f"{text!r} is not a type of Spark's: use string, long, double, timestamp, array<string>, ...")


def schema_text(schema: Schema) -> str:
    """DDL again. Only for schemas whose types are all known."""
    assert all(field.type is not None for field in schema), schema
    return ", ".join(f"{quoted(field.name)} {field.type}" for field in schema)


def quoted(name: str) -> str:
    """A column's name as SQL takes it."""
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def names(schema: Schema) -> tuple[str, ...]:
    return tuple(field.name for field in schema)


def type_of(schema: Schema, name: str) -> str | None:
    return next((field.type for field in schema if field.name == name), None)


def reject_duplicates(given: Iterable[str], *, where: str) -> None:
    """Spark folds the case of columns, so `Id` and `id` are one."""
    seen: dict[str, str] = {}
    for name in given:
        if (other := seen.get(name.lower())) is not None:
            raise PlanError(
                f"{where}: column {name!r} is there twice (Spark does not tell {other!r} and {name!r} apart)"
            )
        seen[name.lower()] = name


def _field(part: str, text: str) -> Field:
    found = _NAME.match(part)
    if found is None or found.end() == len(part):
        raise PlanError(f'schema {text!r}: {part.strip()!r} is not a column with its type, such as "id long"')
    name = found[2] if found[1] is None else found[1].replace("``", "`")
    try:
        return Field(name, parse_type(part[found.end() :]))
    except PlanError as error:
        raise PlanError(f"schema {text!r}: column {name!r}: {error}") from None


def _split(text: str) -> Iterator[str]:
    """The parts between the commas that stand outside of brackets and back quotes."""
    depth, quoting, start = 0, False, 0
    for position, character in enumerate(text):
        if character == "`":
            quoting = not quoting
        elif quoting:
            continue
        elif character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth -= 1
            if depth < 0:
                break
        elif character == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    if depth or quoting:
        raise PlanError(f"schema {text!r}: a bracket or a back quote has no partner")
    if text[start:].strip() or start:
        yield text[start:]
