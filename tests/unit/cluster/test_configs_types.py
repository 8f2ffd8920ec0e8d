"""How texts become values, and what people read when they do not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cluster.config_types import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    MAX_LONG,
    PASSWORD,
    SHORT,
    STRING,
    ConfigKey,
    InvalidConfigError,
    Value,
    format_value,
)
from headrace.cluster.configs import (
    BROKER_CONFIGS,
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
)

SAMPLES = {
    "flag": ConfigKey("a.flag", BOOLEAN, False, "A flag."),
    "int": ConfigKey("a.size.bytes", INT, 1, "A size.", minimum=0),
    "short": ConfigKey("a.factor", SHORT, 1, "A factor."),
    "long": ConfigKey("a.time.ms", LONG, 1, "A time.", minimum=-1),
    "level": ConfigKey("a.level", INT, -1, "A level.", minimum=1, maximum=9, outliers=(-1,)),
    "ratio": ConfigKey("a.ratio", DOUBLE, 0.5, "A ratio.", minimum=0, maximum=1),
    "rate": ConfigKey("a.rate.per.second", DOUBLE, 0.5, "A rate."),
    "choice": ConfigKey("a.choice", STRING, "one", "A choice.", values=("one", "two", "three")),
    "loose": ConfigKey("a.choice", STRING, "one", "A choice.", values=("ONE", "TWO"), ignores_case=True),
    "list": ConfigKey("a.list", LIST, (), "A list."),
    "some": ConfigKey("some", LIST, ("x",), "Some.", values=("x", "y"), is_empty_allowed=False),
}


@pytest.mark.parametrize(
    ("sample", "text", "value"),
    [
        ("flag", "true", True),
        ("flag", " FALSE ", False),
        ("int", " 7 ", 7),
        ("int", "+7", 7),
        ("int", "2147483647", 2147483647),
        ("short", "-32768", -32768),
        ("long", "-1", -1),
        ("long", "9223372036854775807", MAX_LONG),
        ("level", "-1", -1),
        ("level", "9", 9),
        ("ratio", "0.25", 0.25),
        ("ratio", "1", 1.0),
        ("rate", "1e3", 1000.0),
        ("choice", "two", "two"),
        ("loose", "two", "two"),
        ("list", "", ()),
        ("list", "a, b ,c", ("a", "b", "c")),
        ("list", "a,b,a", ("a", "b")),
        ("some", "y,x", ("y", "x")),
    ],
)
def test_texts_are_read_as_kafka_reads_them(sample: str, text: str, value: Value) -> None:
    parsed = SAMPLES[sample].parse(text)
    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    ("sample", "text", "words"),
    [
        ("flag", "yes", 'a.flag must be true or false, not "yes"'),
        ("int", "-1", 'a.size.bytes must be a whole number of bytes >= 0, not "-1"'),
        ("int", "5.0", 'a.size.bytes must be a whole number of bytes >= 0, not "5.0"'),
        ("int", "99999999999", 'a.size.bytes must be a whole number of bytes from 0 to 2147483647, not "99999999999"'),
        ("short", "32768", 'a.factor must be a whole number from -32768 to 32767, not "32768"'),
        ("short", "-32769", 'a.factor must be a whole number, not "-32769"'),
        ("long", "7d", 'a.time.ms must be a whole number of milliseconds >= -1, not "7d"'),
        ("long", "", 'a.time.ms must be a whole number of milliseconds >= -1, not ""'),
        ("long", "1_000", 'a.time.ms must be a whole number of milliseconds >= -1, not "1_000"'),
        ("level", "0", 'a.level must be a whole number from 1 to 9, or -1, not "0"'),
        ("level", "10", 'a.level must be a whole number from 1 to 9, or -1, not "10"'),
        ("ratio", "1.5", 'a.ratio must be a number from 0 to 1, not "1.5"'),
        ("ratio", "nan", 'a.ratio must be a number from 0 to 1, not "nan"'),
        ("rate", "1e999", "a.rate.per.second must be a number of bytes per second from -1.7976931348623157e+308"),
        ("choice", "four", 'a.choice must be one, two or three, not "four"'),
        ("choice", "ONE", 'a.choice must be one, two or three, not "ONE"'),
        ("list", "a,,b", 'a.list must be a list without empty items, not "a,,b"'),
        ("some", "x,z", 'some must be a list of x or y, not "x,z"'),
        ("some", " ", 'some must be a list of x or y, with one item at least, not ""'),
    ],
)
def test_a_wrong_text_is_answered_with_what_is_right(sample: str, text: str, words: str) -> None:
    with pytest.raises(InvalidConfigError) as refused:
        SAMPLES[sample].parse(text)
    assert str(refused.value).startswith(words)
    assert refused.value.name == SAMPLES[sample].name


def test_an_error_about_a_secret_does_not_tell_it() -> None:
    secret = ConfigKey("a.password", PASSWORD, None, "A secret.", values=("right",))
    with pytest.raises(InvalidConfigError) as refused:
        secret.parse("hunter2")
    assert "hunter2" not in str(refused.value)
    assert secret.is_sensitive


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (("a", "b"), "a,b"),
        ((), ""),
        (0.5, "0.5"),
        (0.0, "0.0"),
        (10.0, "10.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (9_999_999.0, "9999999.0"),
        (12_345_678.0, "1.2345678E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (-2.5e20, "-2.5E20"),
    ],
)
def test_values_are_written_as_java_writes_them(value: Value, text: str | None) -> None:
    assert format_value(value) == text


@settings(max_examples=200, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_is_read_again_as_it_was(value: float) -> None:
    text = format_value(value)
    assert text is not None
    assert SAMPLES["rate"].parse(text) == value


@pytest.mark.parametrize("table", [BROKER_CONFIGS, TOPIC_CONFIGS, GROUP_CONFIGS, CLIENT_METRICS_CONFIGS])
def test_every_declaration_is_whole(table: dict[str, ConfigKey]) -> None:
    for name, key in table.items():
        assert name == key.name == name.lower()
        assert key.doc[0].isupper(), name
        assert key.doc.endswith("."), name
        assert len(key.doc) < 200, name
        text = format_value(key.default)
        if text is not None:
            assert key.parse(text) == key.default, name
