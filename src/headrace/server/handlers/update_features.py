"""UpdateFeatures (key 57, versions 0-2): the levels of features that the cluster has agreed on.

Behaviour   all or nothing; `validate_only` says what would happen
Versions    1 names the kind of change, and may only try; 2 tells no rows, since one code holds for all of them
Left out    `timeout_ms`: a commit does not take long enough to give up on it
"""

from headrace.cluster.feature_updates import update_features
from headrace.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from headrace.server.context import RequestContext
from headrace.server.later import Later


def handle(request: UpdateFeaturesRequest, ctx: RequestContext) -> Later[UpdateFeaturesResponse]:
    controller = ctx.broker.controller
    return controller.submit(lambda image: update_features(image, controller.settings, request))
