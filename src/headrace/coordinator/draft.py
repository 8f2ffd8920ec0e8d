"""A step in the making: one decision may write records and answer several who wait."""

from typing import Any, Final

from headrace.coordinator.result import Answer, Step, Ticket
from headrace.protocol.internal_records import CoordinatorRecord

MAX_NOTICE_CHARACTERS: Final = 1_000  # names and reasons come from clients, and may be long


class Draft:
    """Collects what a decision leads to; `step` is the whole."""

    __slots__ = ("_answers", "_notices", "_records")

    def __init__(self) -> None:
        self._records: list[CoordinatorRecord] = []
        self._answers: list[Answer] = []
        self._notices: list[str] = []

    def write(self, *records: CoordinatorRecord) -> None:
        self._records += records

    def answer(self, ticket: Ticket, response: Any) -> None:
        self._answers.append(Answer(ticket, response))

    def notice(self, text: str) -> None:
        """One line for the broker's log, whatever clients call themselves."""
        if len(text) > MAX_NOTICE_CHARACTERS:
            text = text[:MAX_NOTICE_CHARACTERS] + "..."
        if not text.isprintable():
            text = "".join(each if each.isprintable() else "?" for each in text)
        self._notices.append(text)

    def step(self) -> Step:
        return Step(records=tuple(self._records), answers=tuple(self._answers), notices=tuple(self._notices))
