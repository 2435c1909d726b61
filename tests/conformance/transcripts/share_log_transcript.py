"""A conversation about share groups (KIP-932) and what becomes of their logs: transactions, deleted records, where a
group begins.

Owns: the questions, and which part of an answer counts: batches, what is acquired with its delivery counts, errors,
start offsets and lags.
"""

from typing import Any

from tests.clients.asking import Broker, Told, one_partition, parts_of
from tests.clients.conversation import Conversation, Producer
from tests.clients.share_requests import ACCEPT, GAP, REJECT, RELEASE, STRICT, ShareMember, ShareTalk

SOON_MS = 500
_FETCHES = 3
DAY_MS = 86_400_000


def conversation(broker: Broker, wall_ms: int) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    talk = LogTalk(broker)
    talk.transactions = Conversation(broker, wall_ms)
    talk.prepare()
    yield from parts_of(
        talk, uncommitted, committed, open_transaction, only_aborted, deleted, deleted_when_idle, begins, gone
    )


class LogTalk(ShareTalk):
    transactions: Conversation

    def topic(self, topic: str, *counts: int, **settings: Any) -> ShareMember:
        """A topic with batches of so many records, and a group of its name with a member."""
        self.create(topic, 1)
        for count in counts:
            self.produce(topic, count)
        self.ready(topic, topic, **settings)
        return ShareMember(self, topic, topic=topic)

    def start(self, topic: str) -> list[tuple[int, int]]:
        """Start offset and lag."""
        return [(place[3], place[5]) for place in self.offsets(topic)[-1]]

    def delete_records(self, topic: str, offset: int) -> Any:
        topics = one_partition(topic, offset=offset)
        shape = "topics.0.partitions.0(error_code low_watermark)"
        deleted = self.ask("DeleteRecords", 2, shape, topics=topics, timeout_ms=10_000)
        self.broker.let_pass(SOON_MS)
        return deleted

    def begun(self, topic: str, transactional_id: str, count: int) -> Producer:
        """A transaction with a batch in the topic."""
        producer = self.transactions.started(transactional_id)
        assert self.transactions.produce(producer, topic=topic, count=count, version=12)[0] == "NONE"
        return producer


def _all(member: ShareMember) -> list[tuple[int, int, int]]:
    """Acquire until there is no more. An answer may be empty where Kafka finds its next offset deleted."""
    found: list[tuple[int, int, int]] = []
    for _ in range(_FETCHES):
        for place in member.records(0, max_wait_ms=SOON_MS):
            for first, last, count in place[-1]:
                if found and found[-1][1] + 1 == first and found[-1][2] == count:
                    found[-1] = (found[-1][0], last, count)
                else:
                    found.append((first, last, count))
    return found


def _written(talk: LogTalk, topic: str) -> None:
    """Records 0-2 committed, 4-6 aborted, 8-9 without a transaction, 10-11 aborted, 13 committed; markers between."""
    talk.begun(topic, f"{topic} 1", 3).ended(True)
    talk.begun(topic, f"{topic} 2", 3).ended(False)
    talk.produce(topic, 2)
    talk.begun(topic, f"{topic} 3", 2).ended(False)
    talk.begun(topic, f"{topic} 4", 1).ended(True)


def uncommitted(talk: LogTalk) -> Told:
    """Isolation read_uncommitted, the default: aborted records are records, markers are acquired like them."""
    member = talk.topic("uncommitted")
    _written(talk, "uncommitted")
    yield "all", member.records(0)
    yield "markers as gaps", (member.done((0, 2, [ACCEPT]), (3, 3, [GAP]), (4, 6, [REJECT])), talk.start("uncommitted"))
    yield "the rest", (member.done((7, 14, [ACCEPT])), talk.start("uncommitted"))
    strict = talk.topic("uncommitted.strict")
    _written(talk, "uncommitted.strict")
    for number in range(4):
        yield f"strict, part {number}", strict.records(0, max_records=4, share_acquire_mode=STRICT)


def committed(talk: LogTalk) -> Told:
    """Isolation read_committed: aborted records are left out of what is acquired."""
    member = talk.topic("committed", share_isolation_level="read_committed")
    _written(talk, "committed")
    yield "all", member.records(0)
    yield "some", (member.done((0, 2, [ACCEPT]), (3, 3, [GAP])), talk.start("committed"))
    yield "aborted ones", member.done((4, 6, [ACCEPT]))
    yield "released", member.done((7, 9, [RELEASE]))
    yield "released, again", member.records(0)
    yield "all of it", (member.done((7, 9, [GAP, ACCEPT, ACCEPT]), (12, 14, [ACCEPT])), talk.start("committed"))
    for mode, topic in ((STRICT, "committed.strict"), (0, "committed.loose")):
        part = talk.topic(topic, share_isolation_level="read_committed")
        _written(talk, topic)
        for number in range(4):
            answer = part.records(0, max_records=4, share_acquire_mode=mode, max_wait_ms=SOON_MS)
            yield f"mode {mode}, part {number}", answer
        part.acknowledge(acknowledged={}, epoch=-1)
        talk.broker.let_pass(SOON_MS)
        yield f"mode {mode}, released", part.records(0, epoch=0)


def open_transaction(talk: LogTalk) -> Told:
    """Records behind the last stable offset."""
    for level in ("read_uncommitted", "read_committed"):
        topic = f"open.{level}"
        member = talk.topic(topic, 2, share_isolation_level=level)
        producer = talk.begun(topic, topic, 2)
        talk.produce(topic, 2)
        yield f"{level}, open", _all(member)
        yield f"{level}, open, lag", talk.start(topic)
        producer.ended(False)
        yield f"{level}, ended", member.records(0, max_wait_ms=2_000)
        yield f"{level}, done", (member.done((0, 1, [ACCEPT])), talk.start(topic))


def only_aborted(talk: LogTalk) -> Told:
    """A log in which nothing is left to deliver."""
    member = talk.topic("aborted", share_isolation_level="read_committed")
    talk.begun("aborted", "aborted 1", 3).ended(False)
    yield "fetched", member.records(0, max_wait_ms=SOON_MS)
    yield "fetched again", member.records(0, max_wait_ms=SOON_MS)
    yield "the marker", (member.done((3, 3, [GAP])), talk.start("aborted"))
    talk.produce("aborted", 2)
    yield "written", member.records(0)
    yield "done", (member.done((4, 5, [ACCEPT])), talk.start("aborted"))


def deleted(talk: LogTalk) -> Told:
    """DeleteRecords below, in and above what is acquired."""
    member = talk.topic("deleted", 10, 10, 10)
    yield "acquired", member.records(0, max_records=20)
    yield "some done", (member.done((0, 1, [ACCEPT]), (10, 12, [ACCEPT])), talk.start("deleted"))
    yield "deleted to 5", (talk.delete_records("deleted", 5), talk.start("deleted"))
    yield "below it", (member.done((3, 4, [ACCEPT])), talk.start("deleted"))
    yield "over it", (member.done((3, 6, [ACCEPT])), talk.start("deleted"))
    yield "released", (member.done((7, 8, [RELEASE])), talk.start("deleted"))
    yield "deleted to 8", (talk.delete_records("deleted", 8), talk.start("deleted"))
    yield "what was released", _all(member)
    yield "the last of the batch", (member.done((9, 9, [RELEASE])), talk.start("deleted"))
    yield "in the next batch", (talk.delete_records("deleted", 15), talk.start("deleted"))
    yield "fetched then", _all(member)
    yield "closed", member.acknowledge(acknowledged={}, epoch=-1)
    talk.broker.let_pass(SOON_MS)
    yield "anew", member.records(0, epoch=0)
    yield "all deleted", (talk.delete_records("deleted", 30), talk.start("deleted"))
    yield "all deleted, acknowledged", (member.done((20, 29, [ACCEPT])), talk.start("deleted"))
    talk.produce("deleted", 3)
    yield "written", member.records(0)
    yield "written, done", (member.done((30, 32, [ACCEPT])), talk.start("deleted"))


def deleted_when_idle(talk: LogTalk) -> Told:
    """Deleted before the first fetch, and between two."""
    member = talk.topic("idle", 10, 10)
    yield "deleted at first", talk.delete_records("idle", 13)
    yield "fetched", member.records(0)
    yield "done", (member.done((13, 19, [ACCEPT])), talk.start("idle"))
    talk.produce("idle", 10)
    talk.produce("idle", 10)
    yield "deleted again", (talk.delete_records("idle", 35), talk.start("idle"))
    yield "fetched again", _all(member)
    yield "done again", (member.done((35, 39, [ACCEPT])), talk.start("idle"))


def begins(talk: LogTalk) -> Told:
    """Where a group begins to read: share.auto.offset.reset, once for each partition."""
    talk.create("begins", 1)
    for _ in range(2):
        talk.produce("begins", 5, at_ms=talk.transactions.wall_ms - 2 * DAY_MS)
    for value in ("earliest", "latest", "by_duration:P1D", "by_duration:P3D"):
        group = f"begins {value}"
        talk.configure(group, share_auto_offset_reset=value)
        talk.join(group, "m", "begins")
        talk.initialized(group, "begins")
        member = ShareMember(talk, group, topic="begins")
        yield value, member.records(0, max_wait_ms=SOON_MS)
        yield f"{value}, start", talk.start(group)
    talk.join("begins by default", "m", "begins")
    talk.initialized("begins by default", "begins")
    member = ShareMember(talk, "begins by default", topic="begins")
    yield "by default", member.records(0, max_wait_ms=SOON_MS)
    talk.produce("begins", 2)
    yield "by default, written", member.records(0)
    yield "by default, done", (member.done((10, 11, [ACCEPT])), talk.start("begins by default"))
    talk.configure("begins by default", share_auto_offset_reset="earliest")
    member.acknowledge(acknowledged={}, epoch=-1)
    yield "changed afterwards", member.records(0, epoch=0, max_wait_ms=SOON_MS)


def gone(talk: LogTalk) -> Told:
    """A topic that is deleted and made again is another one to a group."""
    member = talk.topic("gone", 5)
    yield "acquired", member.records(0)
    yield "some done", (member.done((0, 2, [ACCEPT])), talk.start("gone"))
    talk.ask("DeleteTopics", 5, topic_names=["gone"], timeout_ms=10_000)
    talk.broker.let_pass(1_000)
    yield "deleted", talk.start("gone")
    talk.create("gone", 1)
    talk.produce("gone", 4)
    talk.join("gone", "m", "gone")
    talk.initialized("gone", "gone")
    yield "made again", talk.start("gone")
    yield "made again, acquired", member.records(0, epoch=0)
    yield "made again, done", (member.done((0, 3, [ACCEPT])), talk.start("gone"))


_RELOADED = (
    "Kafka keeps the share-partitions of a group that has no session any more until its connection is closed; here "
    "they are dropped at once, and read again with neighbours that are alike as one"
)
_STARTED = (
    "Kafka moves the start offset over aborted records with a later write, so that many of them take all the record "
    "locks of the partition; here they move it at once"
)
_BEGUN = (
    "Kafka writes where a group begins with its first acknowledgement, and one that is killed before begins again "
    "elsewhere; here that is durable before the first records are returned"
)
_WHOLE = "0-2 [3] 4-6 [7] 8-9 10-11 [12] 13-13 [14]"

# Where we answer otherwise on purpose, and why.
DIFFERENCES: dict[str, tuple[str, object]] = {
    **{
        f"committed: mode {mode}, released": (
            _RELOADED,
            ((f"committed.{topic}-0", _WHOLE, [(0, 3, 2), (7, 9, 2), (12, 14, 2)]),),
        )
        for mode, topic in ((STRICT, "strict"), (0, "loose"))
    },
    "deleted: anew": (_RELOADED, (("deleted-0", "10-19 20-29", [(15, 29, 2)]),)),
    "only_aborted: the marker": (_STARTED, (("NONE", None), [(3, 0)])),
    "begins: earliest, start": (_BEGUN, [(0, 10)]),
    "begins: by_duration:P3D, start": (_BEGUN, [(0, 10)]),
    "open_transaction: read_uncommitted, open, lag": (_BEGUN, [(0, 6)]),
    "open_transaction: read_committed, open, lag": (_BEGUN, [(0, 6)]),
}
