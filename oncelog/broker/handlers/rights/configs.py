"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: the right for each resource, by its type.

Owns: which right settings of which resource need. Does not own: which resources have settings: those that do not are
the handler's to refuse.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from oncelog.broker.apis.descriptor import EachResource
from oncelog.broker.cluster.metadata_log import ResourceType as Configured
from oncelog.broker.handlers.rights.checks import DENIED, after, errors_of, joined, may, replaced
from oncelog.broker.handlers.shared.error_places import response_module
from oncelog.broker.requests.context import Handler, RequestContext
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.acls import CLUSTER_NAME, AclOperation, ResourceType
from oncelog.protocol.api_keys import ApiKey

_RESOURCES: Mapping[int, ResourceType] = MappingProxyType(
    {
        Configured.TOPIC: ResourceType.TOPIC,
        Configured.GROUP: ResourceType.GROUP,
        Configured.BROKER: ResourceType.CLUSTER,
        Configured.BROKER_LOGGER: ResourceType.CLUSTER,
        Configured.CLIENT_METRICS: ResourceType.CLUSTER,
    }
)


def check_resources(each: EachResource, context: RequestContext, request: Any, handle: Handler) -> Sliced[Any]:
    module = response_module(context.api_key)
    (rows,) = errors_of(context).rows
    new_row = getattr(module, rows.kind)
    allowed, denied = [], []
    for row in request.resources:
        yield 1
        kind = _RESOURCES.get(row.resource_type)
        name = CLUSTER_NAME if kind is ResourceType.CLUSTER else row.resource_name
        if kind is None or _is_refused_for_all(context, row) or may(context, each.operation, kind, name):
            allowed.append(row)
        else:
            error = DENIED[kind]
            which = {"resource_type": row.resource_type, "resource_name": row.resource_name}
            # As in Kafka, whose broker refuses loggers itself, with an exception that says no more than its code.
            is_logger = row.resource_type == Configured.BROKER_LOGGER and each.operation is AclOperation.ALTER_CONFIGS
            denied.append(new_row(error_code=error, error_message=None if is_logger else error.text, **which))
    if not denied:
        return handle(context, request)
    refused = getattr(module, module.NAME)(**{rows.answered: denied})
    if not allowed:
        return refused
    outcome = handle(context, replaced(request, resources=allowed))
    return after(outcome, lambda response: joined(response, refused, rows.answered))


def _is_refused_for_all(context: RequestContext, row: Any) -> bool:
    """Whether Kafka's broker refuses the row before it or its controller asks for a right: so does the handler."""
    if row.resource_type == Configured.BROKER and context.api_key != ApiKey.DESCRIBE_CONFIGS:
        return row.resource_name not in ("", str(context.broker.live_config.node_id))
    return bool(row.resource_type == Configured.BROKER_LOGGER and context.api_key == ApiKey.ALTER_CONFIGS)
