import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.streams.errors import PlanError
from headrace.streams.schema import Field, parse_schema, parse_type, schema_text


def test_types_have_one_spelling_each() -> None:
    assert parse_schema("a long, b INTEGER, c short, d byte, e real, f bool, g dec, h numeric(9, 2)") == (
        Field("a", "bigint"),
        Field("b", "int"),
        Field("c", "smallint"),
        Field("d", "tinyint"),
        Field("e", "float"),
        Field("f", "boolean"),
        Field("g", "decimal(10,0)"),
        Field("h", "decimal(9,2)"),
    )


def test_nested_types_are_kept_as_text_with_the_case_of_their_names() -> None:
    assert parse_schema("a struct< City : string, zip: array<int> >, m map<string , long>, d decimal( 5 , 1 )") == (
        Field("a", "struct<City:string,zip:array<int>>"),
        Field("m", "map<string,long>"),
        Field("d", "decimal(5,1)"),
    )


def test_names_may_be_quoted() -> None:
    assert parse_schema("`odd, name` long, `a``b` string") == (Field("odd, name", "bigint"), Field("a`b", "string"))


def test_a_colon_may_stand_between_name_and_type() -> None:
    assert parse_schema("id: long") == (Field("id", "bigint"),)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("", "at least one column"),
        ("id", "not a column with its type"),
        ("id long,", "not a column with its type"),
        ("id lnog", "column 'id': 'lnog' is not a type"),
        ("a array<int", "no partner"),
        ("a int>", "no partner"),
        ("`a int", "no partner"),
        ("id long, ID int", "'id' and 'ID' apart"),
        ("id long, id long", "is there twice"),
    ],
)
def test_what_is_not_a_schema_is_told(wrong: str, sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        parse_schema(wrong)


_TYPES = st.sampled_from(
    ["bigint", "string", "double", "decimal(9,2)", "array<string>", "struct<a:int,b:map<string,int>>"]
)
_SCHEMAS = st.lists(st.tuples(st.text(min_size=1), _TYPES), min_size=1, unique_by=lambda column: column[0].lower())


@given(_SCHEMAS)
def test_the_text_of_a_schema_reads_back(columns: list[tuple[str, str]]) -> None:
    schema = tuple(Field(name, parse_type(type_)) for name, type_ in columns)
    assert parse_schema(schema_text(schema)) == schema
