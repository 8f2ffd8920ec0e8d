"""Feature levels: what this build can do, what each level of metadata.version means, and which levels belong together.

A feature is a name with a level that the whole cluster has agreed on (it is "finalized" by a FeatureLevelRecord;
level 0 means off). `metadata.version` is the feature that says which metadata records may be written. It never goes
below 7, and `kraft.version` is not kept in records at all but in control records of the quorum.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
TRANSACTION_VERSION: Final = "transaction.version"
GROUP_VERSION: Final = "group.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"


class LevelRange(NamedTuple):
    """The levels of one feature that a node can work at, both ends inclusive."""

    lowest: int
    highest: int


# What a Kafka 4.3 broker supports, and so do we: a node that lacked one of them could not join such a cluster.
SUPPORTED_FEATURES: Final[Mapping[str, LevelRange]] = {
    METADATA_VERSION: LevelRange(7, 30),
    KRAFT_VERSION: LevelRange(0, 1),
    TRANSACTION_VERSION: LevelRange(0, 2),
    GROUP_VERSION: LevelRange(0, 1),
    ELR_VERSION: LevelRange(0, 1),
    SHARE_VERSION: LevelRange(0, 1),
    STREAMS_VERSION: LevelRange(0, 1),
}

LATEST_METADATA_VERSION: Final = SUPPORTED_FEATURES[METADATA_VERSION].highest


class MetadataVersion(NamedTuple):
    """One level of metadata.version."""

    level: int
    name: str
    # Whether it brought a record, or a layout of one, that the level below cannot read: going back below it loses data.
    changes_records: bool


METADATA_VERSIONS: Final[tuple[MetadataVersion, ...]] = tuple(
    MetadataVersion(level, name, changes_records=mark == "*")
    for level, (name, mark) in enumerate(
        (
            ("3.3-IV3", "*"),
            ("3.4-IV0", "*"),
            ("3.5-IV0", ""),
            ("3.5-IV1", ""),
            ("3.5-IV2", "*"),
            ("3.6-IV0", ""),
            ("3.6-IV1", "*"),
            ("3.6-IV2", "*"),
            ("3.7-IV0", "*"),
            ("3.7-IV1", ""),
            ("3.7-IV2", "*"),
            ("3.7-IV3", ""),
            ("3.7-IV4", ""),
            ("3.8-IV0", ""),
            ("3.9-IV0", ""),
            ("4.0-IV0", ""),
            ("4.0-IV1", "*"),
            ("4.0-IV2", ""),
            ("4.0-IV3", ""),
            ("4.1-IV0", ""),
            ("4.1-IV1", ""),
            ("4.2-IV0", ""),
            ("4.2-IV1", ""),
            ("4.3-IV0", "*"),
        ),
        start=SUPPORTED_FEATURES[METADATA_VERSION].lowest,
    )
)

# The first metadata.version with each ability.
SCRAM_SINCE: Final = 11
ISR_SHRINK_KEEPS_EPOCH_SINCE: Final = (
    12  # KAFKA-15021: before, followers only noticed a shrunken ISR by a new leader epoch
)
CONTROLLER_REGISTRATION_SINCE: Final = 15
DIRECTORIES_SINCE: Final = 17
ELR_SINCE: Final = 23
CORDONED_DIRECTORIES_SINCE: Final = 30

# The metadata.version from which on a new cluster starts with this level of a feature.
_BOOTSTRAP_LEVELS: Final[Mapping[str, tuple[tuple[int, int], ...]]] = {
    KRAFT_VERSION: ((21, 1),),
    TRANSACTION_VERSION: ((24, 2),),
    GROUP_VERSION: ((22, 1),),
    ELR_VERSION: ((26, 1),),
    SHARE_VERSION: ((28, 1),),
    STREAMS_VERSION: ((29, 1),),
}

# What a level needs: feature -> level -> other features at least at these levels.
DEPENDENCIES: Final[Mapping[str, Mapping[int, Mapping[str, int]]]] = {
    ELR_VERSION: {1: {METADATA_VERSION: ELR_SINCE}},
}


def metadata_version_name(level: int) -> str:
    """Kafka's name of a level, as in `4.3-IV0`."""
    return METADATA_VERSIONS[level - METADATA_VERSIONS[0].level].name


def parse_metadata_version(text: str) -> int:
    """The level behind `4.3-IV0`, or behind the release `4.3`: its last level. Raises ValueError."""
    matches = [version.level for version in METADATA_VERSIONS if text in (version.name, version.name.partition("-")[0])]
    if not matches:
        known = f"{METADATA_VERSIONS[0].name} to {METADATA_VERSIONS[-1].name}"
        raise ValueError(f"{text!r} is not a metadata.version: known are {known}, or a release such as 4.3")
    return max(matches)


def default_levels(metadata_version: int = LATEST_METADATA_VERSION) -> dict[str, int]:
    """The levels at which a new cluster of this metadata.version starts; features that are off are left out."""
    levels = {METADATA_VERSION: metadata_version}
    for name, steps in _BOOTSTRAP_LEVELS.items():
        level = max((level for since, level in steps if metadata_version >= since), default=0)
        if level:
            levels[name] = level
    return levels


def records_change_between(one: int, other: int) -> bool:
    """Whether a step between two levels of metadata.version crosses one that changed the records."""
    low, high = sorted((one, other))
    return any(version.changes_records for version in METADATA_VERSIONS if low < version.level <= high)
