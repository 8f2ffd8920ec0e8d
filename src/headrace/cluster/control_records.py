"""The control records of the metadata quorum: who leads, who votes, and the frame of a snapshot."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.protocol.messages import control_records as messages
from headrace.protocol.records import ControlType

KRAFT_VERSIONS: Final = messages.KRaftVersionFeature(0, 1)  # what this build can do


class VoterEndpoint(NamedTuple):
    """Where the other voters and the brokers reach a voter, by the name of its listener."""

    name: str
    host: str
    port: int


class VoterNode(NamedTuple):
    """A member of the quorum; a node that lost its disk comes back with another directory id, and is another voter."""

    voter_id: int
    directory_id: bytes
    endpoints: tuple[VoterEndpoint, ...]


class ControlRecord(NamedTuple):
    """A control record: the type goes into its key."""

    type: ControlType
    value: bytes


def leader_change(leader_id: int, voter_ids: Sequence[int], granting_ids: Sequence[int]) -> ControlRecord:
    """The first record of every epoch. Version 0, as Kafka 4.3 writes it also where voters have directory ids."""
    message = messages.LeaderChangeMessage(
        leader_id=leader_id,
        voters=[messages.Voter(each) for each in voter_ids],
        granting_voters=[messages.Voter(each) for each in granting_ids],
    )
    return ControlRecord(ControlType.LEADER_CHANGE, b"".join(messages.encode_leader_change_message[0](message)))


def membership(kraft_version: int, voters: Sequence[VoterNode]) -> list[ControlRecord]:
    """kraft.version and the voters, where the log keeps them: from kraft.version 1 on."""
    if kraft_version == 0:
        return []
    version = messages.KRaftVersionRecord(kraft_version=kraft_version)
    rows = [
        messages.VotersVoter(
            voter.voter_id,
            voter.directory_id,
            [messages.Endpoint(*endpoint) for endpoint in voter.endpoints],
            KRAFT_VERSIONS,
        )
        for voter in voters
    ]
    return [
        ControlRecord(ControlType.KRAFT_VERSION, b"".join(messages.encode_kraft_version_record[0](version))),
        ControlRecord(
            ControlType.KRAFT_VOTERS, b"".join(messages.encode_voters_record[0](messages.VotersRecord(voters=rows)))
        ),
    ]


def read_kraft_version(value: bytes) -> int:
    """What a KRAFT_VERSION record says. Raises DecodeError."""
    return messages.decode_kraft_version_record[0](value, memoryview(value), 0, len(value)).kraft_version


def read_voters(value: bytes) -> tuple[VoterNode, ...]:
    """What a KRAFT_VOTERS record says. Raises DecodeError."""
    record = messages.decode_voters_record[0](value, memoryview(value), 0, len(value))
    return tuple(
        VoterNode(
            voter.voter_id,
            voter.voter_directory_id,
            tuple(VoterEndpoint(each.name, each.host, each.port) for each in voter.endpoints),
        )
        for voter in record.voters
    )


def snapshot_header(last_timestamp_ms: int) -> ControlRecord:
    """How a snapshot begins; the time is that of the last record that it replaces."""
    header = messages.SnapshotHeaderRecord(last_contained_log_timestamp=last_timestamp_ms)
    return ControlRecord(ControlType.SNAPSHOT_HEADER, b"".join(messages.encode_snapshot_header_record[0](header)))


def snapshot_footer() -> ControlRecord:
    """How a snapshot ends: without it the file is not whole."""
    footer = messages.encode_snapshot_footer_record[0](messages.SnapshotFooterRecord())
    return ControlRecord(ControlType.SNAPSHOT_FOOTER, b"".join(footer))
