"""IncrementalAlterConfigs (44), versions 0–1: sets, deletes, and changes lists of single settings (KIP-339).

- Each resource has its own result; one that is named twice is rejected both times. The changes of one are atomic, take
  effect at once, and are durable before the response. `validate_only` decides and writes nothing.
- Topics; this broker, or "" for all brokers (those settings that Kafka changes while running, listed in
  docs/start/configuration.md); groups; subscriptions to clients' metrics, which are kept and shown though none are
  collected; the level of this broker's log, which is reset by a restart, as in Kafka.
- An unknown broker setting is accepted, stored and shown without its value, as in Kafka.
- An unknown operation is INVALID_REQUEST, where Kafka fails with UNKNOWN_SERVER_ERROR.
"""

from oncelog.broker.cluster.metadata_log import ResourceType
from oncelog.broker.config.changes import ConfigChange, Operation, check_request, find_resource, prepare_changes
from oncelog.broker.handlers.shared.altered_resources import alter_each
from oncelog.broker.handlers.shared.logger_levels import alter_levels
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.protocol.generated.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)


def handle(context: RequestContext, request: IncrementalAlterConfigsRequest) -> Sliced[IncrementalAlterConfigsResponse]:
    def decide(resource: AlterConfigsResource) -> Completion[None]:
        return _decide(context, resource, request.validate_only)

    responses = yield from alter_each(request.resources, decide, AlterConfigsResourceResponse)
    return IncrementalAlterConfigsResponse(responses=responses)


def _decide(context: RequestContext, resource: AlterConfigsResource, validate_only: bool) -> Completion[None]:
    changes = _changes(resource)
    broker = context.broker
    if resource.resource_type == ResourceType.BROKER_LOGGER:
        alter_levels(context, resource.resource_name, changes, validate_only)
        return Completion.of(None)
    found = find_resource(
        resource.resource_type, resource.resource_name, broker.metadata.state, broker.config, broker.live_config.node_id
    )
    difference = prepare_changes(found, changes)
    names = [change.name for change in changes]
    return broker.live_config.alter(resource.resource_type, found.name, difference, names, validate_only)


def _changes(resource: AlterConfigsResource) -> list[ConfigChange]:
    unset = [item.name for item in resource.configs if item.value is None and item.config_operation != Operation.DELETE]
    check_request([item.name for item in resource.configs], unset)
    try:
        return [ConfigChange(item.name, Operation(item.config_operation), item.value) for item in resource.configs]
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown operation on a setting") from None
