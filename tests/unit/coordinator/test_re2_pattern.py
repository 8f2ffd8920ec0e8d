"""Patterns of names. RE2/J itself judges them in tests/interop."""

import pytest

from headrace.coordinator.re2_pattern import Pattern, PatternError
from headrace.coordinator.re2_tree import MAX_DEPTH, MAX_LENGTH, MAX_SIZE
from headrace.coordinator.regex_job import RegexJob


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("orders", ["orders"], ["order", "orders1", "xorders", "Orders"]),
        ("orders.*", ["orders", "orders-eu"], ["my-orders"]),
        (r"orders\..+", ["orders.eu"], ["orders-eu", "orders."]),
        ("^orders-(eu|us)$", ["orders-eu", "orders-us"], ["orders-uk", "orders-"]),
        ("(?i)orders", ["orders", "ORDERS"], ["order"]),
        ("(?i:o)rders", ["Orders"], ["ORDERS"]),
        ("[a-c]{2,3}", ["ab", "abc"], ["a", "abca", "ad"]),
        ("a{2,}", ["aa", "aaaa"], ["a", ""]),
        (r"\w+", ["a_1"], ["a-1", "a.1"]),
        (r"[^\d]+", ["a-b"], ["a1"]),
        (r"[[:upper:]_]+", ["A_B"], ["a"]),
        (r"\p{Lu}\p{Ll}+", ["Orders"], ["orders", "O1"]),
        (r"\w+\b-\b\w+", ["a-b"], ["a-", "a-.b"]),
        (r".*\Bx", ["ax", "x-ax"], ["x", "a-x"]),
        (r"\Qa.b\E+", ["a.b", "a.bb"], ["axb"]),
        (r"(?P<name>a)|b", ["a", "b"], ["ab"]),
        ("", [""], ["a"]),
        ("a|", ["a", ""], ["b"]),
        ("é|ü*", ["", "é", "üü"], ["e", "É"]),
        ("(?i)é", ["é", "É"], ["e"]),
        ("(?i)[à-ÿ]+", ["ÀÖ", "àö"], ["a"]),
        ("(?i)Σ", ["\u03c3", "Σ", "ς"], ["s"]),
        ("(?i)i", ["i", "I"], ["\u0130", "\u0131"]),
        ("(?i)[^k]", ["s", "é"], ["k", "K", "\u212a"]),
        (r"\p{Greek}+", ["Σς"], ["S", ""]),
        (r"\pN", ["7", "٣", "½"], ["x"]),
        (r"\d", ["7"], ["٣"]),
        ("a.b", ["a b", "a😀b"], ["a\nb"]),
        ("(?s)a.b", ["a\nb"], []),
        (r"a\sb", ["a\nb", "a b"], ["a\u00a0b"]),
        ("a\n^b", [], ["a\nb"]),
        ("(?m)a$\n^b", ["a\nb"], ["ab"]),
        (r"\x61\x{62}\143", ["abc"], ["ab"]),
    ],
)
def test_a_pattern_is_compared_with_the_whole_name(pattern: str, matching: list[str], others: list[str]) -> None:
    compiled = Pattern(pattern)
    assert [name for name in [*matching, *others] if compiled.matches(name)] == matching
    assert [name for name in [*matching, *others] if compiled.matches(name)] == matching  # from what it remembers


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "[a",
        "a**",
        "*a",
        "(?=a)",
        "(?<!a)b",
        r"(a)\1",
        r"\Z",
        "a{1001}",
        "a{3,2}",
        "[z-a]",
        r"\p{Nope}",
        "a\\",
    ],
)
def test_what_re2_does_not_have_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)+b", "(a*)*b", "(x+x+)+y", "(.*)(.*)(.*)(.*)[^a]"])
def test_matching_takes_steps_in_proportion_to_the_length_of_the_name(pattern: str) -> None:
    """Python's own `re` would need more steps than there are atoms for these."""
    compiled = Pattern(pattern)
    assert not compiled.matches("a" * 249)
    assert compiled.work < 249 * 20


def test_a_pattern_with_many_sets_of_states_forgets_and_still_matches() -> None:
    compiled = Pattern("(a|b)*a(a|b){12}")
    names = [f"{number:016b}".replace("0", "a").replace("1", "b") for number in range(1 << 12)]
    assert all(compiled.matches(name) is (name[-13] == "a") for name in names)
    assert len(compiled._sets) <= 1_000


def test_a_pattern_that_unfolds_to_too_much_is_refused() -> None:
    Pattern("(ab){1000}")
    with pytest.raises(PatternError, match=str(MAX_SIZE)):
        Pattern("((a{1000}){1000}){1000}")
    with pytest.raises(PatternError, match=str(MAX_SIZE)):
        Pattern("a" * 32_000)
    assert Pattern(f"[{'ab' * 16_000}]").matches("b")
    with pytest.raises(PatternError, match=str(MAX_LENGTH)):
        Pattern(f"[{'ab' * 17_000}]")


@pytest.mark.parametrize("pattern", ["(a|" * 5_000 + "b" + ")" * 5_000, "a" + r"*\Q\E" * 5_000])
def test_a_pattern_that_is_nested_too_deep_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match=str(MAX_DEPTH)):
        Pattern(pattern)


def test_parentheses_alone_are_no_depth() -> None:
    assert Pattern("(" * 1_000 + "a" + ")" * 1_000).matches("a")


def test_what_a_pattern_remembers_is_bounded() -> None:
    """There are more characters than anybody has memory for."""
    compiled = Pattern("(?i)[^a]*")
    for code in range(0x4E00, 0x4E00 + 20_000):
        assert compiled.matches(chr(code))
    assert len(compiled._bits) <= 10_000
    assert sum(len(each.next) for each in compiled._sets.values()) <= 100_000


def test_a_job_stops_within_a_name() -> None:
    """A pattern that wants to be slow takes thousands of steps for each character of a name."""
    slow = "(a|b)*a(a|b){900}"
    name = "ab" * 500
    job = RegexJob([slow, "a.*"], [name, "other"], 0)
    slices = 1
    while not job.work(20_000):
        slices += 1
    assert slices > 20
    assert job.found == {slow: frozenset(), "a.*": {name}}
