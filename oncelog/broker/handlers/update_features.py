"""UpdateFeatures (57), versions 0–2: changes the finalized levels (KIP-584), all of them or none.

- An invalid update: INVALID_UPDATE_VERSION for the whole request, with Kafka's message.
- The same level again changes nothing and is not an error. A downgrade must be declared (v1+ upgrade_type 2 or 3; v0's
  field is ignored, as in Kafka).
- v1+ `validate_only` decides and writes nothing. v0 and v1 list each feature in the response.
- `eligible.leader.replicas.version` (KIP-966) switches whether min.insync.replicas has one value for all brokers.
- The new levels apply to every request from then on; the epoch in ApiVersions grows. The response is sent once durable.
"""

from oncelog.broker.cluster.features import ELIGIBLE_LEADER_REPLICAS_VERSION, check_update
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.update_features_request import UpdateFeaturesRequest
from oncelog.protocol.generated.update_features_response import UpdatableFeatureResult, UpdateFeaturesResponse

_FAILED = "The update failed for all features since the following feature had an error: "


def handle(
    context: RequestContext, request: UpdateFeaturesRequest
) -> UpdateFeaturesResponse | Completion[UpdateFeaturesResponse]:
    broker = context.broker
    levels = broker.metadata.state.features
    wanted = {update.feature: update for update in request.feature_updates}
    try:
        controller_id = broker.leadership.controller.node_id
        for name, update in wanted.items():
            check_update(controller_id, levels, name, update.max_version_level, update.upgrade_type)
    except KafkaError as error:
        return UpdateFeaturesResponse(error_code=error.code, error_message=_FAILED + error.message)
    response = UpdateFeaturesResponse(
        error_message=None,
        results=[UpdatableFeatureResult(feature=name, error_message=ErrorCode.NONE.name) for name in wanted],
    )
    changes = {
        name: update.max_version_level
        for name, update in wanted.items()
        if update.max_version_level != levels.get(name, 0)
    }
    if request.validate_only or not changes:
        return response
    if ELIGIBLE_LEADER_REPLICAS_VERSION in changes:
        broker.live_config.settle_value_of_cluster()
    return broker.metadata.set_features(changes).map(
        lambda _: response, lambda error: UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
    )
