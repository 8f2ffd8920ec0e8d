"""Patterns of names beside RE2/J, which Apache Kafka reads them with: what they match, and which are refused."""

from pathlib import Path
from random import Random
from typing import Final

import pytest

from headrace.coordinator.re2_pattern import Pattern, PatternError
from tests.support.group_parts import ask_kafka
from tests.support.kafka_tools import KafkaTools

pytestmark = pytest.mark.kafka

PATTERNS: Final = 20_000
NAMES: Final = [
    *("a", "b", "ab", "ba", "aab", "abab", "k", "K", "s", "S", "_", "-", ".", "0", "9", "a.b", "a-b", "A_b", "a9"),
    *("orders", "Orders", "orders-eu", "orders.eu.1", "__consumer_offsets", "x" * 40, "ab" * 12 + "c"),
    # No topic has such a name; a transactional id may. RE2/J knows Unicode 6.0.
    *("é", "É", "ß", "ẞ", "µ", "μ", "\u039c", "\u017f", "\u212a", "å", "\u212b", "\u03c3", "ς", "Σ", "i", "I"),
    *("\u0130", "\u0131", "ǆ", "ǅ", "日本", "かな", "😁", "a😁", "٣", "½", "я", "Ж", "~", "", "\x7f", "\u0301"),
    *("a\nb", "\n", "a\n", "\na", "a b", "\t", "\u00a0", "\v"),
]
# Each is read in a way of its own somewhere; some are refused.
STRANGE_PATTERNS: Final = [
    *("", "()", "(|a)", "(a|)", "|", "a||b", "(", ")", "a)", "(a))", "((a)", "(?:a", "(?)", "(?:)", "(?i)ORDERS"),
    *(
        "a**",
        "a*+",
        "a+?",
        "a*?",
        "a*??",
        "a??",
        "a?*",
        "(a*)*",
        "(a*)+b",
        "*a",
        "+",
        "?",
        "(*a)",
        "|*",
        "^*",
        "$+a?",
        "a(?i)*",
    ),
    *(
        "a{2}",
        "a{2,}",
        "a{,2}",
        "a{2,3}",
        "a{3,2}",
        "a{02}",
        "a{1001}",
        "a{1000}",
        "a{2}{3}",
        "a{2}?",
        "a{",
        "a{1",
        "a{1,",
    ),
    *(
        "a{1,x}",
        "{",
        "{2}",
        "a{999999999}",
        "a{1,999999999}",
        "a{999999999",
        "a{0}",
        "a{0,0}b",
        "a{x}",
        "}",
        "a}",
        "]",
        "a]",
    ),
    *(
        "[a-c]+",
        "[^a]+",
        "[]a]",
        "[^]a]+",
        "[a-]+",
        "[-a]+",
        "[a",
        "[",
        "[]",
        "[^]",
        "[z-a]",
        "[a-a]",
        "[--.]+",
        "[a\\-b]+",
    ),
    *(
        "[[:alpha:]]+",
        "[[:^alpha:]]+",
        "[[:foo:]]",
        "[[:alpha",
        "[[:]",
        "[:alpha:]",
        "[[:word:]-]+",
        "[[:ascii:]]+",
        "[[:punct:]]",
    ),
    *(
        "\\d+",
        "\\D+",
        "\\w+",
        "\\W+",
        "\\s",
        "\\S+",
        "[\\d]+",
        "[^\\d]+",
        "[\\D]+",
        "[\\w.]+",
        "[a-\\d]",
        "[\\d-z]+",
        "[\\b]",
    ),
    *(
        "\\pL+",
        "\\PL+",
        "\\p{L}+",
        "\\p{^L}+",
        "\\P{^L}+",
        "\\p{Greek}",
        "\\P{Greek}+",
        "\\p{Latin}+",
        "\\p{Common}+",
        "\\p{Nope}",
    ),
    *(
        "\\p",
        "\\p{",
        "\\p{}",
        "\\pX",
        "\\p{Any}+",
        "\\p{Lu}+",
        "(?i)\\p{Lu}+",
        "(?i)\\P{Lu}+",
        "[\\p{Lu}_]+",
        "\\p{Zyyy}",
        "\\p{Lu",
    ),
    *(
        "\\ba",
        "a\\b",
        "\\Ba",
        "a\\Bb",
        "\\b\\w+\\b.*",
        "\\w+\\b-\\b\\w+",
        "\\Aa",
        "a\\z",
        "a\\Z",
        "\\Ca",
        "^a$",
        "^^a$$",
        "a^b",
        "a$b",
    ),
    *("\\Qa.b\\E", "\\Qa.b", "\\Q\\E*", "a\\Q\\E*", "\\Qab\\E*", "\\E", "a*\\Q\\E*", "(?i)\\QAb\\E"),
    *(
        "\\",
        "a\\",
        "\\.",
        "\\_",
        "\\-",
        "\\a",
        "\\x61",
        "\\x{61}",
        "\\x{110000}",
        "\\x{}",
        "\\x{61",
        "\\x6",
        "\\xg1",
        "\\141",
        "\\61",
        "\\1",
        "\\8",
    ),
    *(
        "\\0",
        "\\060",
        "\\0601",
        "\\x{0000000000061}",
        "\\é",
        "é",
        "(?i)\u212a",
        "(?i)\u017f",
        "\u212a",
        "(?i)[\u0100-\u0200]",
        "(?i)k",
    ),
    *(
        "(?P<n>a)",
        "(?<n>a)",
        "(?P<n>a)(?P<n>b)",
        "(?P<>a)",
        "(?P<n-m>a)",
        "(?P<n",
        "(?P=n)",
        "(?P>n)",
        "(?=a)a",
        "(?!b)a",
        "(?<=a)b",
    ),
    *(
        "(?<!a)b",
        "(?>a)",
        "(?#c)a",
        "(?i:A)b",
        "(?i:a|B)",
        "(?i-s:A)",
        "(?-i:a)",
        "(?i-:a)",
        "(?--i:a)",
        "(?i",
        "(?x)a",
        "(?ims)A",
        "(?U)a+",
    ),
    *(
        "(?i)A(?-i)B",
        "((?i)a)B",
        "(?s).+",
        "(?m)^a$",
        ".*",
        ".+",
        "[^\\x00-\\x{10FFFF}]",
        "\\C",
        "a.c",
        "(ab){2,3}",
        "(a|ab)(c|bcd)?",
    ),
    *(
        "orders.*",
        "^orders-(eu|us)$",
        "(orders|__.*)",
        "(a+)+$",
        "(x+x+)+y",
        "(a|aa)+$",
        "([a-zA-Z]+)*",
        "(.*)(.*)(.*)[^a]",
    ),
]


def random_pattern(random: Random) -> str:
    """Mostly well formed, and sometimes broken."""
    pattern = _random_part(random, 3)
    if random.random() < 0.25:
        place = random.randint(0, len(pattern))
        pattern = (
            pattern[:place] + random.choice("()[]{}*+?|^$\\.-:,aKs01Q<>P=!i") + pattern[place + random.randint(0, 1) :]
        )
    return pattern


def _random_part(random: Random, depth: int) -> str:
    kind = random.randrange(12 if depth else 6)
    if kind < 3:
        return random.choice(
            ["a", "b", "ab", "orders", "k", "S", "_", "-", "\\.", ".", "0", "é", "\\x6b", "\\101", "Σ", "\n", "\\s"]
        )
    if kind == 3:
        return random.choice(
            [
                "\\d",
                "\\W",
                "\\S",
                "\\pL",
                "\\P{Lu}",
                "\\pN",
                "\\p{Latin}",
                "\\p{Greek}",
                "[à-ÿ]",
                "[^é]",
                "[[:space:]\\pS]",
                "[a-f]",
                "[^a]",
                "[[:alnum:]]",
                "[^[:upper:]_]",
                "[\\d.-]",
            ]
        )
    if kind == 4:
        return random.choice(["^", "$", "\\b", "\\B", "\\A", "\\z", "(?i)", "(?s)", "(?m)", "(?-m)", ""])
    if kind == 5:
        return f"[{random.choice('ab^')}{random.choice('a-zA-Z0-9_.')}{random.choice(['', 'a-c', 'K-S', '0-9'])}]"
    if kind < 8:
        return _random_part(random, depth - 1) + _random_part(random, depth - 1)
    if kind == 8:
        return f"{_random_part(random, depth - 1)}|{_random_part(random, depth - 1)}"
    opening = random.choice(["(", "(?:", "(?i:", "(?i-s:", "(?-i:", "(?m:", "(?ms:"])
    if kind == 9:
        return f"{opening}{_random_part(random, depth - 1)})"
    repeat = random.choice(["*", "+", "?", "*?", "+?", "??", "{2}", "{0,2}", "{1,}", "{2}?", "{,3}"])
    return f"{opening}{_random_part(random, depth - 1)}){repeat}" if kind == 10 else f"a{repeat}"


def our_match(pattern: str, names: list[str]) -> list[str] | None:
    try:
        compiled = Pattern(pattern)
    except PatternError:
        return None
    return [name for name in names if compiled.matches(name)]


def test_a_pattern_matches_what_re2_matches_and_is_refused_where_re2_refuses_it(
    kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    random = Random("patterns")
    patterns = [*STRANGE_PATTERNS, *(random_pattern(random) for _ in range(PATTERNS))]
    theirs = ask_kafka(kafka_tools, tmp_path, "match", [{"pattern": pattern, "names": NAMES} for pattern in patterns])
    ours = [our_match(pattern, NAMES) for pattern in patterns]
    differences = [each for each in zip(patterns, ours, theirs, strict=True) if each[1] != each[2]]
    assert differences == []
    refused, matching = theirs.count(None), sum(1 for each in theirs if each)
    assert refused > PATTERNS / 50
    assert matching > PATTERNS / 4
