"""ListConfigResources (74), versions 0–1: the resources with settings (KIP-1142).

- v0 requests subscriptions to clients' metrics only. v1 names kinds, or none for all of them.
- Topics; this broker and its log; subscriptions; groups with their own settings. Another kind: UNSUPPORTED_VERSION.
"""

from functools import partial

from oncelog.broker.cluster.metadata_log import ResourceType
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.slices import Sliced, each
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.list_config_resources_request import ListConfigResourcesRequest
from oncelog.protocol.generated.list_config_resources_response import ConfigResource, ListConfigResourcesResponse


def handle(context: RequestContext, request: ListConfigResourcesRequest) -> Sliced[ListConfigResourcesResponse]:
    kinds: set[int] = {ResourceType.CLIENT_METRICS} if context.api_version == 0 else set(request.resource_types)
    if not kinds <= set(ResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    resources = []
    for kind in ResourceType:
        if not kinds or kind in kinds:
            resources += yield from each(_names(context, kind), partial(_resource, kind))
    return ListConfigResourcesResponse(config_resources=resources)


def _resource(kind: ResourceType, name: str) -> ConfigResource:
    return ConfigResource(resource_name=name, resource_type=kind)


def _names(context: RequestContext, kind: ResourceType) -> list[str]:
    broker = context.broker
    match kind:
        case ResourceType.TOPIC:
            return [topic.name for topic in broker.topics.all()]
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return [str(broker.live_config.node_id)]
        case _:
            return [name for known, name in broker.metadata.state.configs if known == kind]
