"""The command `headrace`, run in this process: what it printed, and how it ended."""

import json
from typing import Any, NamedTuple

from click.testing import CliRunner

from headrace.cli import main


class Ended(NamedTuple):
    code: int
    out: str
    err: str
    raw: bytes

    @property
    def objects(self) -> list[dict[str, Any]]:
        """What --json printed."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def rows(self) -> list[list[str]]:
        """A table, cell by cell, without its heading; for cells without blanks."""
        return [line.split() for line in self.out.splitlines()[1:]]


def headrace(*arguments: str, stdin: bytes = b"", bootstrap: str | None = None) -> Ended:
    environment = {"HEADRACE_BOOTSTRAP": bootstrap, "COLUMNS": "200"}
    result = CliRunner().invoke(main, list(arguments), input=stdin, env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ended(result.exit_code, result.stdout, result.stderr, result.stdout_bytes)


def done(*arguments: str, stdin: bytes = b"", bootstrap: str | None = None) -> Ended:
    """Run it; it must succeed."""
    ended = headrace(*arguments, stdin=stdin, bootstrap=bootstrap)
    assert ended.code == 0, ended
    return ended
