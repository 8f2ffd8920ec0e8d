"""What a member of the quorum must not forget, and the file `quorum-state` in which Kafka keeps it."""

import json
from typing import Any, Final, NamedTuple

from headrace.protocol.types import ZERO_UUID, uuid_from_text, uuid_to_text

NOBODY: Final = -1


class QuorumState(NamedTuple):
    """The newest epoch this node knows, its leader, and this node's vote in it. It must be on disk before it counts."""

    leader_epoch: int = 0
    leader_id: int = NOBODY
    voted_id: int = NOBODY
    voted_directory_id: bytes = ZERO_UUID


class QuorumStateError(ValueError):
    """A quorum-state file that cannot be read: the node must not vote before somebody has looked at it."""


def format_quorum_state(state: QuorumState, *, kraft_version: int) -> str:
    """The content of the file, in the version that belongs to this kraft.version."""
    fields: dict[str, Any]
    if kraft_version == 0:
        fields = {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": state.voted_id,
            "appliedOffset": 0,
            "currentVoters": [],
            "data_version": 0,
        }
    else:
        fields = {
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": state.voted_id,
            "votedDirectoryId": uuid_to_text(state.voted_directory_id),
            "data_version": 1,
        }
    return json.dumps(fields, separators=(",", ":"))


def parse_quorum_state(text: str) -> QuorumState:
    """What the file says, in either version. Raises QuorumStateError."""
    try:
        fields = json.loads(text)
        if fields["data_version"] not in (0, 1):
            raise ValueError(f"data_version {fields['data_version']} is not 0 or 1")
        directory = fields.get("votedDirectoryId")
        return QuorumState(
            leader_epoch=_whole(fields["leaderEpoch"]),
            leader_id=_whole(fields["leaderId"]),
            voted_id=_whole(fields["votedId"]),
            voted_directory_id=ZERO_UUID if directory is None else uuid_from_text(directory),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise QuorumStateError(
            f"quorum-state cannot be read ({type(fault).__name__}: {fault}): {text[:200]!r}"
        ) from fault


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is not a whole number")
    return value
