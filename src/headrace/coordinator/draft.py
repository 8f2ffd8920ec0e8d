"""A step in the making: one decision may write records and answer several who wait."""

from typing import Any

from headrace.coordinator.result import Answer, Step, Ticket
from headrace.protocol.internal_records import CoordinatorRecord


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
        self._notices.append(text)

    def step(self) -> Step:
        return Step(records=tuple(self._records), answers=tuple(self._answers), notices=tuple(self._notices))
