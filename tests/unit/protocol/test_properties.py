"""Java's properties format, read and written."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.protocol.properties import PropertiesError, format_properties, parse_properties


@pytest.mark.parametrize(
    "text",
    [
        "key=value",
        "key = value",
        "key:value",
        "key : value",
        "key value",
        "key\tvalue",
        "  key=value",
        "\\k\\e\\y=value",
        "k\\\n   ey=val\\\n\t ue",
        "key=value\r\n",
        "key=first\nkey=value",
        "# key=comment\n! key=comment\n\n   \nkey=value\n# key=later",
        "key=\\u0076alue",
    ],
)
def test_one_pair_is_read_in_every_form(text: str) -> None:
    assert parse_properties(text) == {"key": "value"}


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("key", {"key": ""}),
        ("key=", {"key": ""}),
        ("=value", {"": "value"}),
        ("key==value", {"key": "=value"}),
        ("a\\ b\\=c\\:d=e", {"a b=c:d": "e"}),
        ("key=value ", {"key": "value "}),
        ("key=a\\tb\\nc\\\\d", {"key": "a\tb\nc\\d"}),
        ("key=a\\\\\nother=b", {"key": "a\\", "other": "b"}),
        ("key=a,\\\n# not a comment", {"key": "a,# not a comment"}),
        ("key=a\\", {"key": "a"}),
        ("key=a\\\n\nb=c", {"key": "a", "b": "c"}),
        ("  \\\n # comment", {}),
        ("key=\\uD83D\\uDE00", {"key": "\U0001f600"}),
        ("a=1\rb=2", {"a": "1", "b": "2"}),
        ("log.dirs=/var/lib/a,\\\n         /var/lib/b", {"log.dirs": "/var/lib/a,/var/lib/b"}),
    ],
)
def test_corners_are_read_as_java_reads_them(text: str, properties: dict[str, str]) -> None:
    assert parse_properties(text) == properties


def test_a_backslash_of_windows_is_named_with_its_line() -> None:
    with pytest.raises(PropertiesError, match=r"line 3: \\u must be followed by four hexadecimal digits"):
        parse_properties("a=1\n\nlog.dirs=C:\\users\\data\nb=2")


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(names, names, max_size=5))
def test_what_is_written_is_read_again(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties).decode("ascii")) == properties
