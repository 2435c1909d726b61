"""A conversation with the share coordinator (KIP-932): the state of share-partitions, and who keeps it.

Owns: the questions, and which part of an answer counts: errors, epochs, offsets, batches. Kafka's brokers ask these of
each other, so no client hides what is odd about them.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from oncelog.protocol.errors import ErrorCode
from tests.clients.asking import Broker, Told, parts_of, text_of
from tests.clients.share_requests import ERROR, ShareTalk

Batch = tuple[int, int, int, int]
"""First offset, last offset, delivery state, delivery count."""
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = 0, 1, 2, 4
_BATCHES = "state_batches(first_offset last_offset delivery_state delivery_count)"
OTHER_EPOCHS = (-2, -1, 0, 4, 6)


def conversation(broker: Broker) -> Told:
    """Every question and its answer; `broker` must be fresh."""
    talk = StateTalk(broker)
    yield from parts_of(
        talk, without_topic, coordinators, validation, initialized, epochs, batches, starts, deleted, several
    )


class StateTalk(ShareTalk):
    group_id = "group"

    def _each(self, api: str, version: int, places: Sequence[tuple[str, int]], counts: str = "", **fields: Any) -> Any:
        """One request about these partitions, with the same fields for each."""
        topics = [{"topic_id": self.ids[topic], "partitions": [{"partition": at, **fields}]} for topic, at in places]
        shape = f"results/partitions{{topic_id:topic partition {ERROR} {counts}}}"
        return self.ask(api, version, shape, group_id=self.group_id, topics=topics)

    def initialize(self, *places: tuple[str, int], **fields: int) -> Any:
        return self._each("InitializeShareGroupState", 0, places, **fields)

    def read(self, *places: tuple[str, int], **fields: int) -> Any:
        found = self._each("ReadShareGroupState", 0, places, f"state_epoch start_offset {_BATCHES}", **fields)
        return [(*rest, *batches) for *rest, batches in found]

    def summary(self, *places: tuple[str, int], leader_epoch: int = -1, version: int = 1) -> Any:
        counts = "state_epoch leader_epoch start_offset" + " delivery_complete_count" * (version >= 1)
        return self._each("ReadShareGroupStateSummary", version, places, counts, leader_epoch=leader_epoch)

    def write(
        self,
        *places: tuple[str, int],
        complete: int = -1,
        batches: Sequence[Batch] = (),
        version: int = 1,
        **fields: int,
    ) -> Any:
        done = {"delivery_complete_count": complete} if version else {}
        return self._each("WriteShareGroupState", version, places, state_batches=batches, **done, **fields)

    def delete(self, *places: tuple[str, int]) -> Any:
        return self._each("DeleteShareGroupState", 0, places)

    def each(self, *places: tuple[str, int]) -> Any:
        """One request of each kind."""
        return {
            "initialize": self.initialize(*places),
            "read": self.read(*places),
            "summary": self.summary(*places),
            "write": self.write(*places),
            "delete": self.delete(*places),
        }

    def found(self, key_type: int, *keys: str, version: int = 6) -> Any:
        shape = f"({ERROR} node_id:is_one host:bool)"
        asked = {"coordinator_keys": keys} if version >= 4 else {"key": keys[0]}
        answer = self.ask("FindCoordinator", version, key_type=key_type, **asked)
        found = answer.coordinators if version >= 4 else [answer]
        return [self.counts(each, shape, is_one=lambda node_id: node_id > 0) for each in found]


def without_topic(talk: StateTalk) -> Told:
    """Requests before `__share_group_state` exists."""
    yield "unknown topic", talk.each(("no topic", 0))
    yield "no topic id", talk.each(("zero", 0))
    made = UUID(int=77)
    for version in (3, 4, 5):
        yield f"find, version {version}", talk.found(2, f"group:{text_of(made)}:0", version=version)


def coordinators(talk: StateTalk) -> Told:
    topic_id = text_of(UUID(int=77))
    while talk.found(2, f"group:{topic_id}:0")[0][0] != "NONE":
        talk.broker.let_pass(50)
    for key in (
        f"group:{topic_id}:0",
        f"group:{topic_id}:-1",
        f"group:{topic_id}:x",
        f"group:{topic_id}:",
        f"group:{topic_id}",
        f"group:{topic_id}:0:1",
        f"a:b:{topic_id}:0",
        f":{topic_id}:0",
        f" :{topic_id}:0",
        "group:nothing:0",
        "group::0",
        f"group:{text_of(UUID(int=0))}:0",
        "group",
        "",
    ):
        yield f"key {talk.plain(key)!r}", talk.found(2, key)
    yield "several keys", talk.found(2, f"group:{topic_id}:0", "group", f"group:{topic_id}:1")
    yield "no key", talk.found(2)
    for key_type in (0, 1):
        answer = [entry[0] in ("NONE", "COORDINATOR_NOT_AVAILABLE") for entry in talk.found(key_type, "group")]
        yield f"of kind {key_type}", answer
    for key_type in (3, -1):
        yield f"of kind {key_type}", talk.found(key_type, "group")


def validation(talk: StateTalk) -> Told:
    talk.prepare(log=2)
    while any(ErrorCode[entry[2]].retriable for entry in talk.read(("no topic", 0))):
        talk.broker.let_pass(50)
    for index in (0, 1, 2, -1):
        yield f"partition {index}", talk.each(("log", index))
    yield "unknown topic", talk.each(("no topic", 0))
    yield "no topic id", talk.each(("zero", 0))
    yield "nothing", talk.each()
    talk.group_id = ""
    yield "no group", talk.each(("log", 0))
    topics = [{"topic_id": talk.ids["log"], "partitions": []}]
    yield "no partitions", talk.ask("ReadShareGroupState", 0, "results", group_id="group", topics=topics)


def initialized(talk: StateTalk) -> Told:
    talk.group_id = "initialized"
    for epoch, offset in ((-1, -1), (0, 5), (0, 7), (3, 9), (2, 11), (3, -1), (3, -2), (-1, 4)):
        yield (
            f"epoch {epoch}, from {offset}",
            (
                talk.initialize(("log", 0), state_epoch=epoch, start_offset=offset),
                talk.summary(("log", 0)),
                talk.read(("log", 0)),
            ),
        )
    yield "version 0", talk.summary(("log", 0), version=0)


def epochs(talk: StateTalk) -> Told:
    talk.group_id = "epochs"
    yield "made", talk.initialize(("log", 0), state_epoch=5, start_offset=10)
    yield "leader epoch 5, read", talk.read(("log", 0), leader_epoch=5)
    yield "leader epoch 5, summary", talk.summary(("log", 0))
    for epoch in OTHER_EPOCHS:
        yield (
            f"written with state epoch {epoch}",
            (
                talk.write(("log", 0), state_epoch=epoch, leader_epoch=5, start_offset=10),
                talk.summary(("log", 0)),
            ),
        )
    for epoch in OTHER_EPOCHS:
        yield f"read in leader epoch {epoch}", (talk.read(("log", 0), leader_epoch=epoch), talk.summary(("log", 0)))
        yield f"summary in leader epoch {epoch}", talk.summary(("log", 0), leader_epoch=epoch)
    for epoch in (-1, 5, 6, 8, 7):
        yield (
            f"written in leader epoch {epoch}",
            (
                talk.write(("log", 0), state_epoch=6, leader_epoch=epoch, start_offset=10),
                talk.summary(("log", 0)),
            ),
        )
    yield "made again", talk.initialize(("log", 0), state_epoch=9, start_offset=1)
    yield "made again, then", (talk.read(("log", 0)), talk.summary(("log", 0)))
    yield "the old epochs write", talk.write(("log", 0), state_epoch=6, leader_epoch=8, start_offset=20)
    yield "an old leader epoch", talk.read(("log", 0), leader_epoch=2)


def batches(talk: StateTalk) -> Told:
    """The ways in which written batches combine with those that were there."""
    for number, steps in enumerate(
        (
            [[(0, 9, AVAILABLE, 1)], [(10, 19, AVAILABLE, 1)], [(20, 29, AVAILABLE, 2)]],
            [[(0, 9, ACKNOWLEDGED, 1), (10, 19, AVAILABLE, 1)], [(10, 14, ACKNOWLEDGED, 1)], [(15, 19, ARCHIVED, 2)]],
            [[(0, 19, AVAILABLE, 1)], [(5, 9, AVAILABLE, 2)], [(8, 12, ACKNOWLEDGED, 1)]],
            [[(0, 19, AVAILABLE, 3)], [(5, 9, AVAILABLE, 2)], [(0, 4, AVAILABLE, 2)]],
            [[(0, 19, ARCHIVED, 3)], [(5, 9, AVAILABLE, 3)], [(5, 9, AVAILABLE, 4)]],
            [[(10, 19, AVAILABLE, 1)], [(0, 9, AVAILABLE, 1)], [(30, 39, AVAILABLE, 1)], [(20, 29, AVAILABLE, 1)]],
            [[(0, 9, AVAILABLE, 1), (0, 9, ACKNOWLEDGED, 1)], [(3, 3, AVAILABLE, 1), (9, 20, ARCHIVED, 1)]],
            [[(0, 9, ACQUIRED, 1)], [(4, 5, ACQUIRED, 2)], [(3, 6, 3, 1)], [(3, 6, 9, 1)]],
            [[(0, 9, AVAILABLE, 0)], [(0, 9, AVAILABLE, -1)]],
        )
    ):
        talk.group_id = f"batches {number}"
        yield f"{number}, made", talk.initialize(("log", 0))
        for step in steps:
            said: list[Batch] = step
            yield f"{number}, {said}", (talk.write(("log", 0), batches=said), talk.read(("log", 0)))


def starts(talk: StateTalk) -> Told:
    """The batches that are left when the start offset moves."""
    talk.group_id = "starts"
    yield "made", talk.initialize(("log", 0), start_offset=-1)
    for offset, complete, said in (
        (0, 0, [(0, 9, AVAILABLE, 1), (10, 19, ACKNOWLEDGED, 1), (20, 29, AVAILABLE, 2)]),
        (5, 10, []),
        (-1, -1, []),
        (-1, 3, [(5, 6, ARCHIVED, 5)]),
        (12, 8, [(20, 24, ACKNOWLEDGED, 2)]),
        (8, 5, []),
        (8, 5, [(8, 11, AVAILABLE, 1)]),
        (50, 0, []),
        (40, 0, [(30, 60, AVAILABLE, 1)]),
        (-2, -2, []),
    ):
        batches: list[Batch] = said
        yield (
            f"from {offset}, {complete} complete, {batches}",
            (
                talk.write(("log", 0), start_offset=offset, complete=complete, batches=batches),
                talk.read(("log", 0)),
                talk.summary(("log", 0)),
            ),
        )
    yield "version 0", talk.write(("log", 0), start_offset=70, version=0)
    yield "version 0, then", (talk.summary(("log", 0)), talk.read(("log", 0)))
    yield "made again", talk.initialize(("log", 0), state_epoch=0, start_offset=3)
    yield "made again, then", (talk.summary(("log", 0)), talk.read(("log", 0)))


def deleted(talk: StateTalk) -> Told:
    talk.group_id = "deleted"
    yield "of nothing", talk.delete(("log", 0))
    yield "made", talk.initialize(("log", 0), state_epoch=4, start_offset=10)
    yield "written", talk.write(("log", 0), state_epoch=4, leader_epoch=3, start_offset=12)
    yield "gone", talk.delete(("log", 0))
    yield "gone, again", talk.delete(("log", 0))
    yield "gone, then", (talk.summary(("log", 0)), talk.read(("log", 0)), talk.write(("log", 0), state_epoch=4))
    yield "made in an older epoch", talk.initialize(("log", 0), state_epoch=1, start_offset=2)
    yield "made in an older epoch, then", (talk.summary(("log", 0)), talk.read(("log", 0), leader_epoch=1))


def several(talk: StateTalk) -> Told:
    talk.group_id = "several"
    both = (("log", 0), ("log", 1), ("no topic", 0), ("zero", 0), ("log", 7))
    yield "made", talk.initialize(*both)
    yield "written", talk.write(*both, start_offset=3)
    yield "read", talk.read(*both)
    yield "summary", talk.summary(*both)
    yield "deleted", talk.delete(*both)
    twice = (("log", 0), ("log", 0))
    yield "twice the same", (talk.initialize(*twice), talk.read(*twice), talk.delete(*twice))
