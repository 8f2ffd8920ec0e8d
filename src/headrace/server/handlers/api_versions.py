"""ApiVersions (key 18, versions 0-4): what this broker speaks, and the features that the cluster has agreed on.

Behaviour   the table of handlers, without telemetry as long as nobody wants any; client software names are checked as
            Kafka checks them
Versions    3 adds features (as tagged fields); 4 may tell of features whose lowest level is 0
            a version that is too new is answered in version 0 by the dispatcher (KIP-511)
Left out    nothing
"""

import re
from typing import Final

from headrace.cluster.features import KRAFT_VERSION, SUPPORTED_FEATURES
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from headrace.server.context import RequestContext
from headrace.server.handlers import SERVED
from headrace.server.telemetry import ClientSoftware

_API_VERSIONS_KEY: Final = 18
_PRODUCE_KEY: Final = 0
_TELEMETRY_KEYS: Final = (71, 72)
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")  # KIP-511


def handle(request: ApiVersionsRequest, ctx: RequestContext) -> ApiVersionsResponse:
    if ctx.version >= 3 and not _is_valid_software(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if ctx.version >= 3:
        ctx.connection.session = ClientSoftware(request.client_software_name, request.client_software_version)
    return ApiVersionsResponse(
        api_keys=_advertised(ctx),
        # A client of version 3 takes a lowest level of 0 for an error (KAFKA-17492), so it does not see those features.
        supported_features=[
            SupportedFeatureKey(name, levels.lowest, levels.highest)
            for name, levels in SUPPORTED_FEATURES.items()
            if levels.lowest > 0 or ctx.version >= 4
        ],
        finalized_features_epoch=ctx.broker.controller.committed_offset,
        finalized_features=_finalized(ctx),
    )


def unsupported_version() -> ApiVersionsResponse:
    """The answer, in version 0, to a version that this broker does not know: which ones it does."""
    served = SERVED[_API_VERSIONS_KEY]
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(served.key, served.min_version, served.max_version)],
    )


def _advertised(ctx: RequestContext) -> list[ApiVersion]:
    # KAFKA-18659: librdkafka before 2.11 looks for Produce version 0 before it compresses, though nobody serves it.
    hidden = () if ctx.broker.telemetry.is_wanted(ctx.image) else _TELEMETRY_KEYS
    return [
        ApiVersion(served.key, 0 if served.key == _PRODUCE_KEY else served.min_version, served.max_version)
        for served in sorted(SERVED.values())
        if served.key not in hidden
    ]


def _finalized(ctx: RequestContext) -> list[FinalizedFeatureKey]:
    # The level of the quorum stands in its control records, and so not in the image.
    levels = {**ctx.image.features, KRAFT_VERSION: ctx.broker.controller.quorum.kraft_version}
    return [FinalizedFeatureKey(name, level, level) for name, level in sorted(levels.items()) if level > 0]


def _is_valid_software(request: ApiVersionsRequest) -> bool:
    return bool(
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    )
