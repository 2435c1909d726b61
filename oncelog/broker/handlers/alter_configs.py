"""AlterConfigs (33), versions 0–2: replaces all settings of a resource; those not named are unset (KIP-133).

- Each resource has its own result. A change takes effect at once, and the response follows once it is durable;
  `validate_only` decides and writes nothing.
- Topics, this broker or "" for all brokers, groups, client metrics: under the rules of IncrementalAlterConfigs. The log
  level cannot be changed this way, as in Kafka.
- A resource that is named twice is INVALID_REQUEST; Kafka never responds to such a request.
"""

from oncelog.broker.config.changes import check_request, find_resource, prepare_replacement
from oncelog.broker.handlers.shared.altered_resources import alter_each
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.generated.alter_configs_request import AlterConfigsRequest, AlterConfigsResource
from oncelog.protocol.generated.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse


def handle(context: RequestContext, request: AlterConfigsRequest) -> Sliced[AlterConfigsResponse]:
    def decide(resource: AlterConfigsResource) -> Completion[None]:
        return _decide(context, resource, request.validate_only)

    responses = yield from alter_each(request.resources, decide, AlterConfigsResourceResponse)
    return AlterConfigsResponse(responses=responses)


def _decide(context: RequestContext, resource: AlterConfigsResource, validate_only: bool) -> Completion[None]:
    broker = context.broker
    kind, name = resource.resource_type, resource.resource_name
    check_request(
        [item.name for item in resource.configs], [item.name for item in resource.configs if item.value is None]
    )
    found = find_resource(kind, name, broker.metadata.state, broker.config, broker.live_config.node_id)
    difference = prepare_replacement(found, {item.name: item.value or "" for item in resource.configs})
    names = [item.name for item in resource.configs]
    return broker.live_config.alter(kind, found.name, difference, names, validate_only)
