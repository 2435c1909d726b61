"""DescribeConfigs (32), versions 1–4: the settings of topics and of this broker, with source and synonyms (KIP-226).

- A null key list means all settings; named ones that do not exist are left out, as in Kafka.
- Values that may hold secrets are never returned (none of ours does today). v3+ types and documentation.

Left out: broker loggers, groups, client metrics (INVALID_REQUEST).
"""

from collections.abc import Sequence

from broker.config import Origin
from broker.config_keys import BROKER_KEYS
from broker.dispatch import RequestContext
from broker.metadata_log import Topic
from broker.topic_config import ConfigSource, resolve_topic_config
from broker.topic_keys import TOPIC_CONFIGS
from broker.topic_rules import check_topic_name
from protocol.errors import ErrorCode, KafkaError
from protocol.generated.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from protocol.generated.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_TOPIC = 2
_BROKER = 4


def handle(context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_describe(context, request, resource) for resource in request.resources])


def _describe(
    context: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    try:
        if resource.resource_type == _TOPIC:
            check_topic_name(resource.resource_name)
            topic = context.broker.topics.get(resource.resource_name)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            entries = topic_config_entries(context, topic, request.include_documentation)
        elif resource.resource_type == _BROKER:
            _check_broker(context, resource.resource_name)
            entries = _broker_entries(context, request.include_documentation)
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}")
    except KafkaError as error:
        return DescribeConfigsResult(
            error_code=error.code,
            error_message=str(error),
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
    names = resource.configuration_keys
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[
            entry if request.include_synonyms else _without_synonyms(entry)
            for entry in entries
            if names is None or entry.name in names
        ],
        error_message=None,
    )


def topic_config_entries(
    context: RequestContext, topic: Topic, include_documentation: bool = False
) -> Sequence[DescribeConfigsResourceResult]:
    """Every setting of a topic; CreateTopics returns the same values."""
    entries = []
    for name in TOPIC_CONFIGS:
        resolved = resolve_topic_config(name, topic.config, context.broker.config)
        entries.append(
            DescribeConfigsResourceResult(
                name=name,
                value=resolved.value,
                config_source=resolved.source,
                synonyms=[
                    DescribeConfigsSynonym(name=synonym, value=value, source=source)
                    for synonym, value, source in resolved.synonyms
                ],
                config_type=resolved.key.type.value,
                documentation=resolved.key.doc if include_documentation else None,
            )
        )
    return entries


def _check_broker(context: RequestContext, name: str) -> None:
    if name not in ("", str(context.broker.node_id)):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {context.broker.node_id} or empty string, but received {name}",
        )


def _broker_entries(context: RequestContext, include_documentation: bool) -> list[DescribeConfigsResourceResult]:
    config = context.broker.config
    entries = []
    for name, key in BROKER_KEYS.items():
        is_default = config.origin(name) is Origin.DEFAULT
        source = ConfigSource.DEFAULT_CONFIG if is_default else ConfigSource.STATIC_BROKER_CONFIG
        value = config.get(name)
        entries.append(
            DescribeConfigsResourceResult(
                name=name,
                value=value,
                read_only=True,
                config_source=source,
                synonyms=[DescribeConfigsSynonym(name=name, value=value, source=source)],
                config_type=key.type.value,
                documentation=key.doc if include_documentation else None,
            )
        )
    return entries


def _without_synonyms(entry: DescribeConfigsResourceResult) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.config_source,
        is_sensitive=entry.is_sensitive,
        config_type=entry.config_type,
        documentation=entry.documentation,
    )
