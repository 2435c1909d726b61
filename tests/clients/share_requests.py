"""Requests of share groups (KIP-932) as members and tools send them, and what counts of each answer.

Owns: the bytes that are asked, the session epochs of a member, and how an answer is shown: error codes and texts,
offsets, states, topics by name; no ids that a broker makes. Does not own: what is asked when (the transcripts).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tests.clients.asking import batch, same, settings, since, text_of
from tests.clients.group_asker import GroupAsker

SETTINGS = (
    "share.coordinator.state.topic.num.partitions=5",
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
)
ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0
STRICT = 1
AT_MS = 1_700_000_000_000
EVERYTHING = 2**31 - 1
PATIENT_MS = 5_000
_LIMITS = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": EVERYTHING, "max_records": 500, "batch_size": 500}
_PAUSE_MS = 50
_GROUP_RESOURCE = 32

Partition = tuple[str, int]
Batches = Sequence[tuple[int, int, Sequence[int]]]
"""Acknowledgements: first offset, last offset, types."""


def batches_of(records: Any) -> str | None:
    """First and last offset of each batch; those with a transaction's marker in brackets."""
    if records is None:
        return None
    data = bytes(records)
    found = []
    at = 0
    while at + 61 <= len(data):
        first = int.from_bytes(data[at : at + 8], "big")
        last = first + int.from_bytes(data[at + 23 : at + 27], "big")
        found.append(f"[{first}]" if data[at + 22] & 32 else f"{first}-{last}")
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return " ".join(found)


ERROR = "error_code error_message:plain"


class ShareTalk(GroupAsker):
    """Whom one talks to about share groups."""

    coordinators = (*GroupAsker.coordinators, (2, f"any:{text_of(UUID(int=77))}:0"))

    def produce(
        self, topic: str, count: int = 1, *, partition: int = 0, size: int = 10, at_ms: int = AT_MS
    ) -> tuple[str, int]:
        """One batch: error and base offset."""
        data = [{"index": partition, "records": batch([b"x" * size] * count, at_ms)}]
        topics = [{"name": topic, "partition_data": data}]
        shape = "responses.0.partition_responses.0(error_code base_offset)"
        produced: tuple[str, int] = self.ask("Produce", 11, shape, acks=-1, timeout_ms=10_000, topic_data=topics)
        return produced

    def configure(self, group_id: str, **values: str | int) -> None:
        """Settings of a group, with underscores instead of dots, once the broker has them."""
        configs = settings(values)
        group = {"resource_type": _GROUP_RESOURCE, "resource_name": group_id}
        answer = self.ask("IncrementalAlterConfigs", 1, resources=[{**group, "configs": configs}])
        assert not answer.responses[0].error_code, answer
        wanted = {(each["name"], each["value"]) for each in configs}
        asked = [{**group, "configuration_keys": None}]
        self.until(wanted.issubset, "DescribeConfigs", 4, "results.0.configs(name value)", resources=asked)

    # --- the group ----------------------------------------------------------------------------------------------------

    def beat(self, group_id: str, member_id: str, epoch: int, **fields: Any) -> tuple[Any, ...]:
        answer = self.ask(
            "ShareGroupHeartbeat", 1, group_id=group_id, member_id=member_id, member_epoch=epoch, **fields
        )
        shape = (
            f"{ERROR} member_id:echoed member_epoch heartbeat_interval_ms "
            "assignment.topic_partitions{topic_id:topic partitions{}}"
        )
        told: tuple[Any, ...] = self.counts(
            answer, shape, echoed=lambda echo: echo if echo in (None, member_id) else "another"
        )
        return told

    def join(self, group_id: str, member_id: str, *topics: str, **fields: Any) -> tuple[Any, ...]:
        return self.beat(group_id, member_id, 0, **{"subscribed_topic_names": list(topics), **fields})

    def group(self, group_id: str, **fields: Any) -> tuple[Any, ...]:
        shape = (
            f"groups.0({ERROR} group_state group_epoch assignment_epoch assignor_name "
            "members{member_id rack_id member_epoch client_id subscribed_topic_names{} "
            "assignment.topic_partitions{topic_id:topic partitions{}} assignment.topic_partitions{topic_name}} "
            "authorized_operations)"
        )
        described: tuple[Any, ...] = self.ask("ShareGroupDescribe", 1, shape, group_ids=[group_id], **fields)
        return described

    def offsets(self, group_id: str, topics: Mapping[str, Sequence[int]] | None = None, version: int = 1) -> Any:
        """DescribeShareGroupOffsets of one group."""
        wanted = None if topics is None else [(topic, list(indexes)) for topic, indexes in topics.items()]
        answer = self.ask("DescribeShareGroupOffsets", version, groups=[(group_id, wanted)])
        shape = (
            f"groups.0(group_id:same {ERROR} topics/partitions"
            "{topic_name topic_id:topic partition_index start_offset leader_epoch lag:since_1 "
            f"{ERROR}}})"
        )
        ways = {"same": same(group_id), "since_1": since(1, version)}
        return self.counts(answer, shape, **ways)

    def initialized(self, group_id: str, *topics: str) -> None:
        """Wait until the partitions of these topics have their state, which a join asks for in the background."""
        while not {topic for topic, *_ in self.offsets(group_id)[-1]} >= set(topics):
            self.broker.let_pass(_PAUSE_MS)

    def ready(self, group_id: str, *topics: str, **values: str | int) -> None:
        """A group, from the first record on, whose member "m" has joined."""
        self.configure(group_id, **{"share_auto_offset_reset": "earliest", **values})
        self.join(group_id, "m", *topics)
        self.initialized(group_id, *topics)


@dataclass
class ShareMember:
    """A member with its share session; each method is one request in the session's next epoch."""

    talk: ShareTalk
    group_id: str | None
    member_id: str | None = "m"
    topic: str = "log"
    epoch: int = 0
    fields: dict[str, Any] = field(default_factory=dict)
    """Fields that each fetch has."""

    def _next(self, epoch: int | None) -> int:
        asked = self.epoch if epoch is None else epoch
        if epoch is None or epoch == 0:
            self.epoch = asked + 1
        return asked

    def _topics(self, partitions: Mapping[int | Partition, Batches]) -> list[dict[str, Any]]:
        """The topics of a request, with acknowledgements of each partition."""
        topics: dict[str, list[Any]] = {}
        for place, batches in partitions.items():
            topic, index = (self.topic, place) if isinstance(place, int) else place
            topics.setdefault(topic, []).append({"partition_index": index, "acknowledgement_batches": batches})
        return [{"topic_id": self.talk.ids[topic], "partitions": of} for topic, of in topics.items()]

    def fetch(
        self,
        *partitions: int | Partition,
        acknowledged: Mapping[int | Partition, Batches] | None = None,
        forgotten: Iterable[int | Partition] = (),
        epoch: int | None = None,
        version: int = 2,
        **fields: Any,
    ) -> tuple[Any, ...]:
        """One ShareFetch. A number is a partition of the member's topic."""
        gone = [
            {**topic, "partitions": [each["partition_index"] for each in topic["partitions"]]}
            for topic in self._topics(dict.fromkeys(forgotten, ()))
        ]
        answer = self._asked(
            "ShareFetch",
            version,
            epoch,
            {**dict.fromkeys(partitions, ()), **(acknowledged or {})},
            forgotten_topics_data=gone,
            **{**_LIMITS, **self.fields, **fields},
        )
        each = (
            f"{{topic_id:topic partition_index {ERROR} acknowledge_error_code acknowledge_error_message:plain "
            "current_leader(leader_id leader_epoch) records:batches "
            "acquired_records(first_offset last_offset delivery_count)}"
        )
        shape = f"{ERROR} acquisition_lock_timeout_ms responses/partitions{each} node_endpoints:len"
        *rest, found, endpoints = self.talk.counts(answer, shape, batches=batches_of)
        return *rest, _of_places(found), endpoints

    def _asked(
        self, api: str, version: int, epoch: int | None, partitions: Mapping[int | Partition, Batches], **fields: Any
    ) -> Any:
        who = {"group_id": self.group_id, "member_id": self.member_id, "share_session_epoch": self._next(epoch)}
        return self.talk.ask(api, version, **who, topics=self._topics(partitions), **fields)

    def records(self, *partitions: int | Partition, **fields: Any) -> tuple[Any, ...]:
        """A fetch that waits for records: partition, batches and what is acquired of each, or the error."""
        answer = self.fetch(*partitions, **{"max_wait_ms": PATIENT_MS, **fields})
        if answer[0] != "NONE":
            return answer
        return tuple((entry[0], *((entry[1:3]) if entry[1] != "NONE" else ()), *entry[-2:]) for entry in answer[3])

    def acknowledge(
        self,
        *batches: tuple[int, int, Sequence[int]],
        acknowledged: Mapping[int | Partition, Batches] | None = None,
        epoch: int | None = None,
        version: int = 2,
        renew: bool = False,
    ) -> Any:
        """One ShareAcknowledge, of partition 0 if it names none: its error, or that of each partition."""
        asked = acknowledged if acknowledged is not None else {0: batches}
        answer = self._asked("ShareAcknowledge", version, epoch, asked, is_renew_ack=renew)
        each = f"{{topic_id:topic partition_index {ERROR} current_leader(leader_id leader_epoch)}}"
        shape = f"{ERROR} acquisition_lock_timeout_ms:since_2 responses/partitions{each} node_endpoints:len"
        *rest, found, endpoints = self.talk.counts(answer, shape, since_2=since(2, version))
        return *rest, _of_places(found), endpoints

    def done(self, *batches: tuple[int, int, Sequence[int]], **fields: Any) -> Any:
        """The error of one partition's acknowledgements, in short."""
        answer = self.acknowledge(*batches, **fields)
        return answer[3][0][1:3] if answer[0] == "NONE" and len(answer[3]) == 1 else answer


def _of_places(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows that begin with topic and partition."""
    return sorted(((f"{topic}-{index}", *rest) for topic, index, *rest in rows), key=repr)
