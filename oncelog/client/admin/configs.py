"""The requests about the settings of topics, groups and nodes (KIP-339).

Owns: the requests, and their errors as exceptions. Does not own: the public names (`client`, which imports this at the
first use: few programs need it).
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from oncelog.client.admin.calls import ask_controller, raise_for_topic
from oncelog.client.admin.descriptions import CONFIG_SOURCES, ConfigEntry, ConfigSynonym
from oncelog.client.values.arguments import ConfigValue, config_values
from oncelog.client.values.errors import ConfigError, KafkaError
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import api_of
from oncelog.client.wire.cluster import Cluster
from oncelog.protocol.generated import (
    describe_configs_request,
    describe_configs_response,
    incremental_alter_configs_request,
    incremental_alter_configs_response,
)
from oncelog.protocol.generated.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from oncelog.protocol.generated.describe_configs_response import DescribeConfigsResult
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

_AUTO_CREATION = "auto.create.topics.enable"
_ASK_MS = 1_000
_DESCRIBE_CONFIGS = api_of(describe_configs_request, describe_configs_response, 1, 4)
_INCREMENTAL_ALTER_CONFIGS = api_of(incremental_alter_configs_request, incremental_alter_configs_response, 0, 1)
_TOPIC_RESOURCE, _BROKER_RESOURCE, _GROUP_RESOURCE = 2, 4, 32
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


async def describe(
    cluster: Cluster, topic: str | None, node_id: int | Literal["all"] | None, group: str | None, deadline: Deadline
) -> list[ConfigEntry]:
    """All settings of the resource that is named, or else of a node."""
    await cluster.refresh((), deadline)
    if topic is None and group is None and node_id is None:
        node_id = min(cluster.metadata.nodes)
    kind, name = _resource(topic, node_id, group)
    resource = DescribeConfigsResource(kind, name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    if isinstance(node_id, int):
        response = await cluster.call_node(node_id, _DESCRIBE_CONFIGS, request, deadline)
    else:
        response = await cluster.call_any(_DESCRIBE_CONFIGS, request, deadline)
    result = response.results[0]
    await raise_for_topic(cluster, result.error_code, topic, result.error_message, deadline)
    return _entries(result)


async def alter(
    cluster: Cluster,
    topic: str | None,
    node_id: int | Literal["all"] | None,
    group: str | None,
    deadline: Deadline,
    *,
    values: Mapping[str, ConfigValue],
    reset: Iterable[str],
    append: Mapping[str, ConfigValue],
    subtract: Mapping[str, ConfigValue],
    validate_only: bool,
) -> None:
    resource_type, resource_name = _resource(topic, node_id, group)
    if isinstance(reset, str):
        raise ConfigError(f"reset={reset!r}: must be a list of names", hint=f"reset=[{reset!r}]")
    configs = [
        *(AlterableConfig(name, _SET, value) for name, value in config_values(values).items()),
        *(AlterableConfig(name, _DELETE, None) for name in reset),
        *(AlterableConfig(name, _APPEND, value) for name, value in config_values(append).items()),
        *(AlterableConfig(name, _SUBTRACT, value) for name, value in config_values(subtract).items()),
    ]
    resource = AlterConfigsResource(resource_type, resource_name, configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    if isinstance(node_id, int):
        await cluster.refresh((), deadline)
        response = await cluster.call_node(node_id, _INCREMENTAL_ALTER_CONFIGS, request, deadline)
    else:
        response = await ask_controller(cluster, _INCREMENTAL_ALTER_CONFIGS, request, deadline)
    for result in response.responses:
        await raise_for_topic(cluster, result.error_code, topic, result.error_message, deadline)


async def creates_topics(cluster: Cluster, deadline: Deadline) -> bool:
    """False if a broker says that it creates no topic on its own; one that does not say may."""
    kind, name = _resource(None, min(cluster.metadata.nodes, default=0), None)
    asked = DescribeConfigsResource(kind, name, configuration_keys=[_AUTO_CREATION])
    try:
        response = await cluster.call_node(
            int(name), _DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=[asked]), deadline.capped(_ASK_MS)
        )
    except KafkaError:
        return True
    return all(each.value != "false" for result in response.results for each in result.configs)


def _resource(topic: str | None, node_id: int | Literal["all"] | None, group: str | None) -> tuple[int, str]:
    """The type and name of the resource that has the settings. Raises ConfigError unless exactly one is named."""
    node = None if node_id is None else "" if node_id == "all" else str(node_id)
    named = [(_TOPIC_RESOURCE, topic), (_GROUP_RESOURCE, group), (_BROKER_RESOURCE, node)]
    found = [(kind, name) for kind, name in named if name is not None]
    if len(found) != 1:
        raise ConfigError("name one of topic, group and node_id")
    return found[0]


def _entries(result: DescribeConfigsResult) -> list[ConfigEntry]:
    return [
        ConfigEntry(
            each.name,
            each.value,
            CONFIG_SOURCES.get(each.config_source, "UNKNOWN"),
            each.read_only,
            each.is_sensitive,
            tuple(
                ConfigSynonym(synonym.name, synonym.value, CONFIG_SOURCES.get(synonym.source, "UNKNOWN"))
                for synonym in each.synonyms
            ),
        )
        for each in result.configs
    ]
