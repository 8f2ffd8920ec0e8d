"""Stories about a coordinator, told in text files: who sends what, what is answered, what is written.

A file holds stories. A story begins with `# ` and its title; a line that is not indented is something that happens, and
the indented lines below it are what follows from that, which the story expects to the letter:

    # a member that is silent for its session time-out is removed
    A enters g
        -> generation 1, range, leader A-1 of [A-1]
    ...

Lines that begin with `;` are remarks. The first or the second word of a line is a verb, which a table knows as a
function from the stage and the other words to the lines that follow. After a change of behaviour that is meant, write
the stories anew, and read the difference:

    python -m tests.support.rewrite_scenarios
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import split
from typing import Any, NamedTuple, TypeAlias

INDENT = "    "
_OPTION = re.compile(r"[a-z_]+=")
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

Verb: TypeAlias = Callable[[Any, str, "Words"], list[str]]  # the stage, who does it, and with what


class Story(NamedTuple):
    title: str
    lines: list[str]  # as they stand in the file, without the title


def read_stories(path: Path) -> list[Story]:
    stories: list[Story] = []
    for line in path.read_text().splitlines():
        if line.startswith("# "):
            stories.append(Story(line[2:].strip(), []))
        elif stories:
            stories[-1].lines.append(line.rstrip())
        else:
            assert not line.strip() or line.startswith(";"), f"{path}: {line} stands before the first story"
    return stories


def play(story: Story, stage: Any, verbs: Mapping[str, Verb]) -> list[str]:
    """The lines of the story as it really happens."""
    played = []
    for line in story.lines:
        if line.startswith(INDENT):
            continue
        played.append(line)
        if is_action(line):
            played += [INDENT + each for each in happen(line, stage, verbs)]
    return played


def is_action(line: str) -> bool:
    """Does something happen here? Other lines tell what follows, or are remarks."""
    return bool(line) and not line.startswith((INDENT, ";"))


def happen(line: str, stage: Any, verbs: Mapping[str, Verb]) -> list[str]:
    """What follows from a line."""
    first, *rest = split(line)
    if first in verbs:
        return verbs[first](stage, "", Words(rest))
    assert set(rest[:1]) & set(verbs), f"nobody knows what this means: {line}"
    return verbs[rest[0]](stage, first, Words(rest[1:]))


class Words:
    """What stands after a verb: things, and options such as `session=10s`."""

    def __init__(self, words: list[str]) -> None:
        self.things = [word for word in words if not _OPTION.match(word)]
        self._options = dict(word.split("=", 1) for word in words if _OPTION.match(word))
        self.options = frozenset(self._options)

    def text(self, name: str) -> str | None:
        return self._options.get(name)

    def number(self, name: str, default: int) -> int:
        text = self._options.get(name)
        return default if text is None else int(text)

    def ms(self, name: str, default: int) -> int:
        text = self._options.get(name)
        return default if text is None else to_ms(text)

    def names(self, name: str, default: str) -> list[str]:
        return [each for each in self._options.get(name, default).split(",") if each]

    def without(self, option: str) -> "Words":
        return Words([*self.things, *(f"{name}={text}" for name, text in self._options.items() if name != option)])

    def flag(self, name: str) -> bool:
        """Does this word stand among the things? It is then no thing any more."""
        if name not in self.things:
            return False
        self.things.remove(name)
        return True


def to_ms(text: str) -> int:
    """`250ms`, `3s`, `5m`, `2h`, `7d`."""
    number, unit = re.fullmatch(r"\+?([0-9]+)([a-z]+)", text).groups()  # type: ignore[union-attr]
    return int(number) * _UNITS[unit]


def pass_time(stage: Any, delay_ms: int) -> list[str]:
    """Everything that becomes due on the way happens at its time; lines tell it, counted from now."""
    driver = stage.driver
    start_ms = driver.now_ms
    end_ms = start_ms + delay_ms
    lines = []
    while (due_ms := driver.shard.next_deadline_ms) is not None and due_ms <= end_ms:
        driver.move(max(due_ms - driver.now_ms, 0))
        lines += [f"+{driver.now_ms - start_ms} ms {line}" for line in stage.news()]
    driver.move(end_ms - driver.now_ms)
    return lines
