"""A group, its topics and members, as a conversation about share groups asks any Kafka-compatible broker for them.

Owns: what counts of an answer: errors and texts, acquired ranges and delivery counts, which batches come with them.
Rows without anything in them do not count, nor does how long a broker takes to begin a group.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from oncelog.protocol.records.batch import iter_batches
from tests.clients.asking import Broker, batch, counts, one_partition
from tests.clients.share_requests import ShareTalk

Key = tuple[str, int]
"""A topic by its name here, and a partition."""
Acknowledged = Mapping[Key, Sequence[tuple[int, int, Sequence[int]]]]
SPREADS_MS = 500
"""The time within which a broker's other parts learn of a decision."""
_FETCHES = 200


class Room(ShareTalk):
    """A group and topics of one part of the conversation."""

    pause_ms = 100
    coordinators = ShareTalk.coordinators[:2]

    def __init__(self, broker: Broker, group_id: str, wall_ms: int) -> None:
        super().__init__(broker)
        self.ids["nowhere"] = UUID(int=99)
        self.group_id = group_id
        self._wall_ms = wall_ms
        self._producer: dict[str, Any] = {}
        self._sequence = 0

    def named(self, topic: str) -> str:
        return f"{self.group_id}-{topic}"

    def topic(self, topic: str, partitions: int = 1) -> str:
        self.create(self.named(topic), partitions)
        self.ids[topic] = self.ids.pop(self.named(topic))
        return topic

    def started(self, **values: str) -> Key:
        """The only partition of the topic "t", which a group reads from the beginning."""
        key = self.topic("t"), 0
        self.set(share_auto_offset_reset="earliest", **values)
        self.begin("t")
        return key

    def set(self, **values: str) -> None:
        self.configure(self.group_id, **values)
        self.broker.let_pass(SPREADS_MS)

    def write(self, topic: str, count: int = 1, partition: int = 0, *, in_transaction: bool = False) -> None:
        """One batch."""
        identity: dict[str, Any] = {}
        if in_transaction:
            identity = {**self._producer, "base_sequence": self._sequence, "transactional": True}
            self._sequence += count
        data = [{"index": partition, "records": batch(count, self._wall_ms, **identity)}]
        error = self.ask(
            "Produce",
            9,
            "responses.0.partition_responses.0.error_code",
            transactional_id=self.group_id if in_transaction else None,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[{"name": self.named(topic), "partition_data": data}],
        )
        assert error == "NONE", error

    def begin_transaction(self, topic: str) -> None:
        if not self._producer:
            asked = {"transactional_id": self.group_id, "transaction_timeout_ms": 60_000}
            made = self.until(lambda answer: not answer.error_code, "InitProducerId", 4, **asked)
            self._producer = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
        identity = {"transactional_id": self.group_id, **self._producer, "topics": [(self.named(topic), [0])]}
        adding = {f"v3_and_below_{field}": value for field, value in identity.items()}
        shape = "results_by_topic_v3_and_below.0.results_by_partition.0.partition_error_code"
        self.until(lambda error: error == "NONE", "AddPartitionsToTxn", 3, shape, **adding)

    def end_transaction(self, *, committed: bool) -> None:
        ending = {"transactional_id": self.group_id, **self._producer, "committed": committed}
        assert self.ask("EndTxn", 3, "error_code", **ending) == "NONE"
        # The marker is there when another transaction may begin.
        self.broker.let_pass(SPREADS_MS)

    def begin(self, *topics: str) -> None:
        """Let a member join, so that the group has the partitions of these topics, and the state of each."""
        names = [self.named(topic) for topic in topics]
        wanted = {"topics": [{"name": name} for name in names]}
        count = len(self.ask("Metadata", 12, "topics/partitions", **wanted))
        beat = {"group_id": self.group_id, "member_id": "first", "member_epoch": 0, "subscribed_topic_names": names}
        shape = "assignment.topic_partitions/partitions"
        self.until(lambda found: len(found) == count, "ShareGroupHeartbeat", 1, shape, **beat)

    def delete_records(self, topic: str, offset: int) -> None:
        asked = {"topics": one_partition(self.named(topic), offset=offset), "timeout_ms": 10_000}
        assert self.ask("DeleteRecords", 2, "topics.0.partitions.0.error_code", **asked) == "NONE"

    def member(self, member_id: str, version: int = 2) -> "Member":
        return Member(self, member_id, version)


class Member:
    """A member that fetches, and what counts of its answers."""

    def __init__(self, room: Room, member_id: str, version: int) -> None:
        self._room = room
        self.member_id = member_id
        self._version = version
        self.epoch = 0

    def _asked(self, api: str, acknowledged: Acknowledged, keys: Sequence[Key], fields: Mapping[str, Any]) -> Any:
        """Ask about each partition; an answer without an error is one of the next epoch."""
        topics = [
            {
                "topic_id": self._room.ids[topic],
                "partitions": [
                    {"partition_index": index, "acknowledgement_batches": acknowledged.get((topic, index), ())}
                ],
            }
            for topic, index in dict.fromkeys((*keys, *acknowledged))
        ]
        who = {"group_id": self._room.group_id, "member_id": self.member_id, "share_session_epoch": self.epoch}
        answer = self._room.ask(api, self._version, **{**who, "topics": topics, **fields})
        if not answer.error_code:
            self.epoch += 1
        return answer

    def fetch(
        self, *keys: Key, acknowledged: Acknowledged | None = None, forgotten: Sequence[Key] = (), **fields: Any
    ) -> Any:
        limits = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1_000_000, "max_records": 500, "batch_size": 500}
        gone = [(self._room.ids[topic], [index]) for topic, index in forgotten]
        said = {**limits, "forgotten_topics_data": gone, **fields}
        answer = self._asked("ShareFetch", acknowledged or {}, keys, said)
        if answer.error_code:
            return counts(answer, "error_code error_message")
        shape = (
            "responses/partitions{topic_id:topic partition_index error_code error_message acknowledge_error_code "
            "acknowledge_error_message acquired_records(first_offset last_offset delivery_count) records:batches}"
        )
        found = self._room.counts(answer, shape, batches=_batches)
        return [row for row in found if (row[2], row[4], row[6], row[7]) != ("NONE", "NONE", [], [])]

    def records(self, *keys: Key, **fields: Any) -> Any:
        """The first response that has something in it: a broker may have to read the state of the group first."""
        found = self.fetch(*keys, **fields)
        for _ in range(_FETCHES):
            if found:
                return found
            found = self.fetch(**fields)
        raise AssertionError("there are no records")

    def acknowledge(self, acknowledged: Acknowledged, **fields: Any) -> Any:
        answer = self._asked("ShareAcknowledge", acknowledged, (), fields)
        if answer.error_code:
            return counts(answer, "error_code error_message")
        shape = "responses/partitions{topic_id:topic partition_index error_code error_message}"
        return self._room.counts(answer, shape)


def _batches(records: Any) -> list[tuple[int, int]]:
    return [(header.base_offset, header.last_offset) for header, _ in iter_batches(memoryview(records or b""))]
