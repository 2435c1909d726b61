"""`kafka-topics`: list, describe, create, alter, delete.

Owns: Kafka's words for what became of it. In Kafka's script an error of the cluster is printed on standard output.
"""

import base64
import re
from typing import TYPE_CHECKING

from oncelog.tools.kafka_scripts.arguments import Options, Wrong, out
from oncelog.tools.kafka_scripts.asking import ask, words_of

if TYPE_CHECKING:
    from oncelog.client.admin.client import Admin
    from oncelog.client.admin.descriptions import TopicDescription

_ACTIONS = ("list", "describe", "create", "alter", "delete")
_COLLISION = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)


def topics(options: Options) -> int:
    from oncelog.client.values.errors import KafkaError

    action = options.only(_ACTIONS)

    async def work(admin: "Admin") -> int:
        try:
            match action:
                case "list":
                    out(*(await _names(admin, options, may_be_missing=True) or [""]))
                case "describe":
                    for each in await admin.describe_topics(*await _names(admin, options)):
                        await _describe(admin, each)
                case "create":
                    await _create(admin, options)
                case "alter":
                    partitions = int(options.value("partitions"))
                    await admin.create_partitions(dict.fromkeys(await _names(admin, options), partitions))
                case "delete":
                    await admin.delete_topics(*await _names(admin, options))
        except (KafkaError, Wrong) as error:
            text = words_of(error) if isinstance(error, KafkaError) else str(error)
            out(f"Error while executing topic command : {text}")
            return 1
        return 0

    return ask(options, work)


async def _names(admin: "Admin", options: Options, *, may_be_missing: bool = False) -> list[str]:
    """Return the topics that --topic names, a regular expression; all without it. Raises Wrong if there is none."""
    names = await admin.list_topics(include_internal="exclude-internal" not in options)
    wanted = options.get("topic")
    if wanted is None:
        return names
    pattern = re.compile(wanted.strip("\"'").replace(",", "|"))
    found = [name for name in names if pattern.fullmatch(name)]
    if not found and not may_be_missing and "if-exists" not in options:
        raise Wrong(f"Topic '{wanted}' does not exist as expected")
    return found


async def _create(admin: "Admin", options: Options) -> None:
    from oncelog.client.admin.descriptions import NewTopic
    from oncelog.client.values.errors import KafkaError

    name = options.value("topic")
    if "." in name or "_" in name:
        out(_COLLISION)
    wanted = NewTopic(
        name,
        options.number("partitions", -1),
        options.number("replication-factor", -1),
        dict(_pair(each) for each in options.all("config")),
    )
    try:
        await admin.create_topics(wanted)
    except KafkaError as error:
        if error.name != "TOPIC_ALREADY_EXISTS":
            raise
        if "if-not-exists" in options:
            return
        raise Wrong(f"Topic '{name}' already exists.") from error
    out(f"Created topic {name}.")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise Wrong(f"--config {text}: all configs to be added must be in the format key=val")
    return name.strip(), value.strip()


async def _describe(admin: "Admin", topic: "TopicDescription") -> None:
    entries = await admin.describe_config_entries(topic=topic.name)
    configs = ",".join(sorted(f"{each.name}={each.value}" for each in entries if each.source != "DEFAULT_CONFIG"))
    topic_id = base64.urlsafe_b64encode(topic.topic_id.bytes).decode().rstrip("=")
    out(
        f"Topic: {topic.name}\tTopicId: {topic_id}\tPartitionCount: {topic.partition_count}"
        f"\tReplicationFactor: {len(topic.partitions[0].replicas)}\tConfigs: {configs}"
    )
    for each in topic.partitions:
        replicas, in_sync = (",".join(map(str, ids)) for ids in (each.replicas, each.in_sync_replicas))
        out(
            f"\tTopic: {topic.name}\tPartition: {each.partition}\tLeader: {each.leader}"
            f"\tReplicas: {replicas}\tIsr: {in_sync}\tElr: \tLastKnownElr: "
        )
