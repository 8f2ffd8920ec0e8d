import pytest

from headrace.protocol.text_hash import java_hash, spread


# What `jshell` says.
@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("a", 97),
        ("my-group", -1906497762),
        ("polygenelubricants", -2147483648),
        ("grün", 3185949),
        ("\U0001f600", 1772899),
    ],
)
def test_is_javas_hash(text: str, number: int) -> None:
    assert java_hash(text) == number


def test_the_smallest_number_has_no_opposite_and_goes_to_the_first_place() -> None:
    assert spread("polygenelubricants", 50) == 0


def test_a_negative_number_counts_as_its_opposite() -> None:
    text = "consumer"
    assert java_hash(text) < 0
    assert spread(text, 50) == -java_hash(text) % 50
