import pytest

from headrace.streams import Bytes, Json, Long, Own, PlanError, String
from headrace.streams.schema import Field
from headrace.streams.serdes import reading, writing


def test_a_serde_says_which_columns_it_makes() -> None:
    assert reading(Json("id long"), where="value") == (Field("id", "bigint"),)
    assert reading(String("user"), where="key") == (Field("user", "string"),)
    assert reading(String("id", "long"), where="key") == (Field("id", "bigint"),)
    assert reading(Long("n"), where="key") == (Field("n", "bigint"),)
    assert reading(Bytes("raw"), where="value") == (Field("raw", "binary"),)
    assert reading(Own("id long", decode=lambda raw: {"id": len(raw)}), where="value") == (Field("id", "bigint"),)


def test_a_serde_says_which_columns_it_needs() -> None:
    assert writing(Json("id long, n int"), where="value") == ("id", "n")
    assert writing(Json(), where="value") is None
    assert writing(String("user"), where="key") == ("user",)


def test_a_serde_that_cannot_do_its_half_says_so() -> None:
    with pytest.raises(PlanError, match="needs a schema to read by"):
        reading(Json(), where="value")
    with pytest.raises(PlanError, match="no decode function"):
        reading(Own("id long", encode=lambda row: b""), where="value")
    with pytest.raises(PlanError, match="no encode function"):
        writing(Own("id long", decode=lambda raw: {}), where="value")
    with pytest.raises(PlanError, match="needs a function"):
        Own("id long")
    with pytest.raises(PlanError, match="use Json, String"):
        reading("id long", where="value of stream()")


def test_serdes_are_equal_by_value() -> None:
    assert Json("id long") == Json("id bigint")
    assert len({String("a"), Bytes("a"), String("a", "long"), String("a")}) == 3
