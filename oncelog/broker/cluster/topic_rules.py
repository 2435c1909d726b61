"""The rules for new and growing topics: names, partition counts and replica assignments, in Kafka's words.

Owns: the rules that need only the request, the existing names and this node's id. Does not own: the topics
(`broker.cluster.topics`), their settings (`broker.config.topic_config`). Invariant: a rule raises KafkaError and
changes nothing. KIPs: 599 (limits on what one request creates).
"""

import re
from collections.abc import Sequence

from oncelog.protocol.errors import ErrorCode, KafkaError

MAX_NAME_LENGTH = 249
MAX_PARTITIONS_PER_REQUEST = 10_000
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+\Z")


def check_topic_name(name: str) -> None:
    """Raises KafkaError(INVALID_TOPIC_EXCEPTION) as Kafka's Topic.validate does."""
    problem = None
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        problem = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif not _LEGAL_NAME.match(name):
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if problem:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def check_collision(name: str, alike: str | None) -> None:
    """`alike` is an existing topic that differs only in '.' and '_', if any: Kafka maps both to one name in metrics and
    rejects the second topic; a topic created here must be valid there."""
    if alike is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {alike}")


def check_total(partition_count: int) -> None:
    """Limits the partitions of one request, over all its topics."""
    if partition_count > MAX_PARTITIONS_PER_REQUEST:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def check_sizes(partition_count: int, replication_factor: int) -> None:
    """The counts of a new topic; −1 means the default. One node has one replica."""
    if replication_factor < -1 or replication_factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if partition_count < -1 or partition_count == 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    if replication_factor > 1:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only 1 broker(s) are registered or some brokers have all "
            "their log directories cordoned.",
        )


def check_numbering(indexes: Sequence[int]) -> None:
    """The partitions of a manual assignment are 0 to n − 1, each once."""
    known: set[int] = set()
    for index in indexes:
        if index in known:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        known.add(index)
    if known != set(range(len(indexes))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )


def check_assignment(broker_ids: Sequence[int], node_id: int) -> None:
    """The replicas of one partition: only this node exists."""
    if len(broker_ids) == 1 and broker_ids[0] == node_id:
        return  # of up to 10,000 partitions in one request
    problem = None
    if not broker_ids:
        problem = "an empty replica list."
    for broker_id in sorted(broker_ids):
        if broker_id != node_id:
            problem = f"broker {broker_id}, but no such broker is registered."
            break
    else:
        if len(broker_ids) > 1:
            problem = f"the broker {node_id} more than once."
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {problem}")


def check_growth(name: str, partition_count: int, wanted_count: int) -> None:
    if wanted_count == partition_count:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {partition_count} partition(s).")
    if wanted_count < partition_count:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {name} currently has {partition_count} partition(s); {wanted_count} would not be an increase.",
        )
