"""DescribeConfigs (32), versions 1–4: settings of topics, brokers, logs, groups, client metrics (KIP-226, KIP-412).

- No key named means all settings; unknown keys are left out, as in Kafka.
- A broker's own id returns its effective settings; "" those set for all brokers; both those of listeners, too.
  Passwords, and values of names that are not known, are hidden.
- v3+ types, and documentation if requested: our own text.

- Settings of Kafka that one node does not need are shown as Kafka shows them, or with what is true of them here
  (docs/compare/compatibility.md).
- Subscriptions to clients' metrics are shown; no metrics are collected.
"""

from collections.abc import Iterator, Sequence

from oncelog.broker.cluster.metadata_log import ResourceType
from oncelog.broker.cluster.topic_rules import check_topic_name
from oncelog.broker.config.descriptions import (
    Entries,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_loggers,
    describe_topic,
    select_entries,
)
from oncelog.broker.config.node_id import check_node_id, parse_int32
from oncelog.broker.handlers.shared.logger_levels import levels
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from oncelog.protocol.generated.describe_configs_response import DescribeConfigsResponse, DescribeConfigsResult

_Identity = tuple[int, str | None]


def handle(context: RequestContext, request: DescribeConfigsRequest) -> Sliced[DescribeConfigsResponse]:
    results = []
    found: dict[_Identity, Entries] = {}
    for resource in _deduplicate(request.resources):
        result = _describe(context, request, resource, found)
        results.append(result)
        yield 1 + len(result.configs) + len(resource.configuration_keys or ()) // 8
    return DescribeConfigsResponse(results=results)


def _deduplicate(resources: Sequence[DescribeConfigsResource]) -> Iterator[DescribeConfigsResource]:
    seen: set[tuple[_Identity, tuple[str, ...]]] = set()
    for resource in resources:
        asked = (_identity(resource), tuple(resource.configuration_keys or ()))
        if asked not in seen:
            seen.add(asked)
            yield resource


def _identity(resource: DescribeConfigsResource) -> _Identity:
    """Return one identity for a resource: a node id can be spelt in several ways."""
    name = resource.resource_name
    if resource.resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        number = parse_int32(name)
        name = name if number is None else str(number)
    return resource.resource_type, name


def _describe(
    context: RequestContext,
    request: DescribeConfigsRequest,
    resource: DescribeConfigsResource,
    found: dict[_Identity, Entries],
) -> DescribeConfigsResult:
    code, message, entries = ErrorCode.NONE, "", Entries()
    identity = _identity(resource)
    if _is_as_all_groups(context, resource):
        identity = (resource.resource_type, None)
    try:
        if identity not in found:
            found[identity] = _entries(context, resource.resource_type, resource.resource_name)
        entries = select_entries(
            found[identity], resource.configuration_keys, request.include_synonyms, request.include_documentation
        )
    except KafkaError as error:
        code, message = error.code, error.message
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=entries,
    )


def _is_as_all_groups(context: RequestContext, resource: DescribeConfigsResource) -> bool:
    """A group without settings of its own, which may have never existed, is answered twenty: they are made once."""
    kind, name = resource.resource_type, resource.resource_name
    return kind == ResourceType.GROUP and bool(name) and not context.broker.metadata.state.config(kind, name)


def _entries(context: RequestContext, kind: int, name: str) -> Entries:
    broker = context.broker
    match kind:
        case ResourceType.TOPIC:
            check_topic_name(name)
            topic = broker.topics.get(name)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return describe_topic(topic.config, broker.config)
        case ResourceType.BROKER:
            return _of_broker(context, name)
        case ResourceType.BROKER_LOGGER:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
            _check_node(context, name, "")
            return describe_loggers(levels(context))
        case ResourceType.GROUP:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return describe_group(broker.metadata.state.config(kind, name), broker.config)
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
            return describe_client_metrics(broker.metadata.state.config(kind, name))
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST.text)


def _of_broker(context: RequestContext, name: str) -> Entries:
    state = context.broker.metadata.state
    for_all = context.broker.live_config.of_all_brokers()
    if not name:
        return describe_all_brokers(for_all)
    _check_node(context, name, " or empty string,")
    this_broker = state.config(ResourceType.BROKER, str(context.broker.live_config.node_id))
    return describe_broker(context.broker.config, this_broker, for_all)


def _check_node(context: RequestContext, name: str, alternative: str) -> None:
    check_node_id(
        name,
        context.broker.live_config.node_id,
        not_a_number="Broker id must be an integer, but it is: {name}",
        another=f"Unexpected broker id, expected {{node_id}}{alternative} but received {{name}}",
    )
