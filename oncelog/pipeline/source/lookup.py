"""What the brokers say about topics: which there are, where their partitions begin and end, offsets by time.

Owns: one connection from the driver, opened when first needed; the sentences about topics that do not exist. Does not
own: what is done with the answers. No look-up creates a topic.
"""

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from oncelog.client import KafkaError, TopicDescription, TopicPartition
from oncelog.client.blocking.clients import Admin
from oncelog.client.values.records import IsolationLevel
from oncelog.pipeline.group_offsets import GroupOffsets
from oncelog.pipeline.options import OptionError, Options, reach_of
from oncelog.pipeline.source.losses import Logs, TopicLog, partitions
from oncelog.pipeline.source.offsets import INITIAL, ByPartition, StreamOffset
from oncelog.pipeline.source.waiting import Gap, Waiting, describe, find_gaps
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.names import nearest

logger = logging.getLogger("oncelog.spark.source")


class Brokers(Protocol):
    """The part of the brokers that planning needs."""

    def logs(self, *, must_exist: bool, expected: StreamOffset = INITIAL) -> Logs: ...

    def offsets_by_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]: ...


class Lookup:
    """Looks up offsets over one connection. `with` is not needed: Spark calls `stop` when the query ends, and a batch
    calls `close` after planning."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._admin: Admin | None = None
        self._isolation: IsolationLevel = options.client.get("isolation_level", "read_committed")

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a task's copy, without a connection: it needs none to plan."""
        return {**self.__dict__, "_admin": None}

    def close(self) -> None:
        if self._admin is not None:
            admin, self._admin = self._admin, None
            admin.__exit__(None, None, None)

    def _opened(self) -> Admin:
        if self._admin is None:
            admin = Admin(self._options.bootstrap_servers, **reach_of(self._options.client))
            admin.__enter__()
            self._admin = admin
        return self._admin

    def logs(self, *, must_exist: bool, expected: StreamOffset = INITIAL) -> Logs:
        """Return the partitions that the options name, as they are now. With `must_exist`, raises OptionError for a
        topic or partition that does not exist; otherwise it is left out. If all end where `expected` does, nothing more
        is looked up about them: they are described as empty, which they are from there on."""
        chosen = {
            topic.name: (str(topic.topic_id) if topic.topic_id.int else "", self._partitions(topic, must_exist))
            for topic in self._chosen(must_exist)
        }
        partitions = [TopicPartition(name, index) for name, (_, indexes) in chosen.items() for index in indexes]
        if expected:
            stable = self.offsets(partitions, "latest")
            found = by_topic(stable)
            known = {name: (topic.topic_id, topic.next) for name, topic in expected.items()}
            if known == {name: (chosen[name][0], ends) for name, ends in found.items()}:
                return {name: TopicLog(chosen[name][0], ends, ends, ends) for name, ends in found.items()}
        # The beginnings come first: nothing that is asked later can lie before them.
        earliest = self.offsets(partitions, "earliest")
        stable = self.offsets(partitions, "latest")
        end = self.offsets(partitions, "latest", "read_uncommitted")
        return {
            name: TopicLog(
                topic_id,
                {index: earliest[TopicPartition(name, index)] for index in indexes},
                {index: stable[TopicPartition(name, index)] for index in indexes},
                {index: end[TopicPartition(name, index)] for index in indexes},
            )
            for name, (topic_id, indexes) in chosen.items()
        }

    def _chosen(self, must_exist: bool) -> list[TopicDescription]:
        pattern: str | None = self._options["subscribePattern"]
        if pattern is None:
            return self._described(self._options["assign"] or self._options["subscribe"], must_exist)
        names = [name for name in self._opened().list_topics() if re.fullmatch(pattern, name)]
        if must_exist and not names:
            raise OptionError(f"subscribePattern={pattern!r} matches no topic; {self._known()}")
        return self._described(names, False) if names else []

    def _partitions(self, topic: TopicDescription, must_exist: bool) -> list[int]:
        if self._options["assign"] is None:
            return list(range(topic.partition_count))
        wanted: tuple[int, ...] = self._options["assign"][topic.name]
        if must_exist and max(wanted) >= topic.partition_count:
            raise OptionError(
                f"assign names {topic.name}-{max(wanted)}: the topic has {partitions(topic.partition_count)}"
            )
        return [index for index in wanted if index < topic.partition_count]

    def _described(self, names: Iterable[str], must_exist: bool) -> list[TopicDescription]:
        try:
            return self._opened().describe_topics(*names)
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        present = self._opened().list_topics()
        for name in names if must_exist else ():
            if name not in present:
                close = nearest(name, present)
                raise OptionError(
                    f"topic {name!r} does not exist: " + (f"did you mean {close[0]!r}?" if close else self._known())
                )
        found = [name for name in names if name in present]
        return self._opened().describe_topics(*found) if found else []

    def _known(self) -> str:
        names = self._opened().list_topics()
        return f"there are {', '.join(map(repr, names[:20]))}" if names else "there are no topics"

    def offsets(
        self, partitions: Iterable[TopicPartition], at: str | int, isolation: IsolationLevel | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offsets at "earliest", "latest" (as the isolation level defines it), or of the first record at or
        after a time in ms, -1 for none."""
        wanted = list(partitions)
        if not wanted:
            return {}
        found = self._opened().list_offsets(wanted, at, isolation_level=isolation or self._isolation)
        return {each: where.offset for each, where in found.items()}

    def offsets_by_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offset at a time of its own for each partition."""
        found: dict[TopicPartition, int] = {}
        for time_ms in sorted(set(times.values())):
            found |= self.offsets([each for each, when in times.items() if when == time_ms], time_ms)
        return found

    def commit_group(self, wanted: GroupOffsets) -> bool:
        """Commit offsets of a group without members, as far as their partitions exist; return False, with a warning, if
        no broker answers, for the offsets are shown and not read. Raises KafkaError for what is refused."""
        try:
            offsets = wanted.existing(self._described({place.topic for place in wanted.offsets}, False))
            if offsets:
                self._opened().alter_group_offsets(wanted.group_id, offsets)
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
                raise wanted.refusal("members") from error
            if not error.retriable:
                raise
            logger.warning("the offsets of group %s are not committed behind this batch: %s", wanted.group_id, error)
            return False
        return True

    def gaps(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Gap]:
        """Return where records wait behind open transactions: nowhere for a reader of what is not committed."""
        return find_gaps(self._opened(), partitions) if self._isolation == "read_committed" else {}

    def describe_gap(self, place: TopicPartition, gap: Gap, now_ms: int) -> Waiting:
        return describe(self._opened(), place, gap, now_ms)


def by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, ByPartition]:
    found: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[partition] = offset
    return {**found}
