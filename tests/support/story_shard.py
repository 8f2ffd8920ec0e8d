"""A shard that plays a story beside a broker.

What it answers is what is left of it in the version of the request; and what follows from each request is noted.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from headrace.coordinator.result import Answer, Step, Ticket
from headrace.protocol.apis import API_BY_NAME, load
from tests.support.group_driver import GroupDriver


class Followed(NamedTuple):
    """What followed from one request."""

    answered: tuple[Ticket, ...]
    records: int
    states: dict[str, tuple[str, int]]  # of classic groups: their state, and how many members they have


class ShardDriver(GroupDriver):
    """Answers are what is left of them after their way through the wire."""

    def __init__(self, configs: Mapping[str, str]) -> None:
        self._spoken: dict[Ticket, tuple[str, int]] = {}
        self._followed: list[Followed] = []
        self._counted = 0
        super().__init__(configs)

    def _new_shard(self) -> Any:
        return _Doors(super()._new_shard(), self._spoken)

    def send(self, decide: Any) -> Ticket:
        ticket = super().send(decide)
        steps = self._new_steps()
        self._followed.append(
            Followed(
                tuple(each for step in steps for each, _ in step.answers),
                sum(len(step.records) for step in steps),
                {
                    group.group_id: (group.state_name, len(group.members))
                    for group in self.shard.groups.values()
                    if group.kind == "classic"
                },
            )
        )
        return ticket

    def _new_steps(self) -> list[Step]:
        steps = self.steps[self._counted :]
        self._counted = len(self.steps)
        return steps

    def followed(self) -> tuple[list[Followed], list[Step]]:
        """From each request since the last time, and by itself afterwards."""
        followed, self._followed = self._followed, []
        return followed, self._new_steps()

    def carry_out(self, step: Step) -> None:
        answers = tuple(Answer(ticket, self._through_the_wire(ticket, said)) for ticket, said in step.answers)
        super().carry_out(step._replace(answers=answers))

    def _through_the_wire(self, ticket: Ticket, response: Any) -> Any:
        if ticket not in self._spoken:
            return response
        api, version = self._spoken.pop(ticket)
        codec = load(API_BY_NAME[api].key)
        data = b"".join(codec.encode_response[version](response))
        return codec.decode_response[version](data, memoryview(data), 0, len(data))


class _Doors:
    """A shard; in which version it is asked is noted."""

    def __init__(self, shard: Any, spoken: dict[Ticket, tuple[str, int]]) -> None:
        self._shard = shard
        self._spoken = spoken

    def __getattr__(self, name: str) -> Any:
        door = getattr(self._shard, name)
        if name not in _APIS:
            return door
        api, version_of = _APIS[name]

        def ask(request: Any, *, ticket: Ticket, **others: Any) -> Step:
            self._spoken[ticket] = (api, version_of(request, others))
            return door(request, ticket=ticket, **others)  # type: ignore[no-any-return]

        return ask


def _told(_: Any, others: dict[str, Any]) -> int:
    return int(others["version"])


def sync_version(request: Any, _: Any) -> int:
    """Since version 5 both the type and the name of the protocol must be said."""
    return 4 if request.protocol_name is None else 5


_APIS: Final[dict[str, tuple[str, Callable[[Any, dict[str, Any]], int]]]] = {
    "join_group": ("JoinGroup", _told),
    "consumer_group_heartbeat": ("ConsumerGroupHeartbeat", _told),
    "sync_group": ("SyncGroup", sync_version),
    "heartbeat": ("Heartbeat", lambda *_: 4),
    "leave_group": ("LeaveGroup", _told),
    "offset_commit": ("OffsetCommit", _told),
    "txn_offset_commit": ("TxnOffsetCommit", _told),
    "offset_delete": ("OffsetDelete", lambda *_: 0),
}
