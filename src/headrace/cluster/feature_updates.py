"""Feature levels change, or are tried out: UpdateFeatures. One wrong level refuses the whole request."""

from typing import Final

from headrace.cluster.config_changes import elr_safety_records
from headrace.cluster.decision import ControllerSettings, Decision, RefusedError
from headrace.cluster.features import (
    DEPENDENCIES,
    ELR_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
    metadata_version_name,
    records_change_between,
)
from headrace.cluster.image import Image
from headrace.cluster.metadata_records import MetadataRecord
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.metadata_records import FeatureLevelRecord
from headrace.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


def update_features(
    image: Image, settings: ControllerSettings, request: UpdateFeaturesRequest
) -> Decision[UpdateFeaturesResponse]:
    """Answer UpdateFeatures. Version 0 says `allow_downgrade` where later ones name the kind of change."""
    updates = {row.feature: row for row in request.feature_updates}  # as in Kafka, the last row of a feature counts
    proposed = dict(image.features) | {name: row.max_version_level for name, row in updates.items()}
    records: list[MetadataRecord] = []
    try:
        for row in updates.values():
            _check(image, row, proposed)
            records.append(FeatureLevelRecord(row.feature, row.max_version_level))
    except RefusedError as refused:
        message = f"nothing was changed: {refused.reason}"
        return Decision((), UpdateFeaturesResponse(error_code=refused.code, error_message=message))
    if proposed.get(ELR_VERSION, 0) > image.features.get(ELR_VERSION, 0):
        records = [*elr_safety_records(image, settings), *records]
    results = [UpdatableFeatureResult(row.feature, error_message=None) for row in request.feature_updates]
    reply = UpdateFeaturesResponse(error_message=None, results=results)
    return Decision(() if request.validate_only else tuple(records), reply)


def _check(image: Image, row: FeatureUpdateKey, proposed: dict[str, int]) -> None:
    name, level = row.feature, row.max_version_level
    kind = SAFE_DOWNGRADE if row.allow_downgrade else row.upgrade_type
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _refused(name, level, f"there is no kind of change {kind}")
    _check_support(image, name, level)
    if name == KRAFT_VERSION:
        raise _refused(name, level, "it is changed by the quorum itself, and fixed when a cluster is formatted")
    now = image.features.get(name, 0)
    if level < now and kind == UPGRADE:
        raise _refused(name, level, f"the level is {now}, and going back must be asked for as a downgrade")
    if level > now and kind != UPGRADE:
        raise _refused(name, level, f"the level is {now}, and a downgrade cannot raise it")
    if name == METADATA_VERSION and level < now and records_change_between(level, now):
        lost = f"records of {metadata_version_name(now)} cannot be written at {metadata_version_name(level)}"
        raise _refused(name, level, f"{lost}, and would be lost")
    for feature, needs in DEPENDENCIES.items():
        for other, least in needs.get(proposed.get(feature, 0), {}).items():
            if proposed.get(other, 0) < least and name in (feature, other):
                raise _refused(name, level, f"{feature} {proposed[feature]} needs {other} {least} or higher")


def _check_support(image: Image, name: str, level: int) -> None:
    own = SUPPORTED_FEATURES.get(name)
    lowest, highest = own or (0, 0)
    if not lowest <= level <= highest:
        raise _refused(name, level, f"this controller supports {lowest} to {highest}")
    members = [(f"broker {broker.broker_id}", broker.features) for broker in image.brokers.values()]
    members += [(f"controller {each.controller_id}", each.features) for each in image.controllers.values()]
    for member, features in members:
        offered = {feature.name: (feature.lowest, feature.highest) for feature in features}
        lowest, highest = offered.get(name, (0, 0))
        if not lowest <= level <= highest:
            raise _refused(name, level, f"{member} supports {lowest} to {highest}")


def _refused(name: str, level: int, reason: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_UPDATE_VERSION, f"{name} cannot become {level}: {reason}")
