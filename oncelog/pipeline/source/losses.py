"""What a log has lost since a checkpoint was written; found before a batch is planned, so that no loss is silent.

Owns: the kinds of loss, the sentence about each, and where a query that accepts it continues. Pure: it is given what
the brokers say. Does not own: whether loss is accepted (`failOnDataLoss`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from oncelog.pipeline.source.offsets import ByPartition, StreamOffset, TopicOffsets

Kind = Literal["deleted", "recreated", "shrunk", "truncated", "overtaken"]


@dataclass(frozen=True, slots=True)
class TopicLog:
    """One topic as the brokers describe it now: of each partition the first offset, the first that may not be read yet
    (the last stable offset at read_committed), and the end of its log (the high watermark)."""

    topic_id: str
    earliest: ByPartition
    stable: ByPartition
    end: ByPartition


Logs = Mapping[str, TopicLog]


@dataclass(frozen=True, slots=True)
class Loss:
    """`count`: offsets that will never be read; None where that cannot be known."""

    kind: Kind
    topic: str
    partition: int | None
    count: int | None
    sentence: str


class DataLost(Exception):
    """Raised if records that a query had not read are gone; the message says which, and how to continue."""


def find_losses(known: StreamOffset, logs: Logs) -> list[Loss]:
    """Return all that is lost between the positions of a checkpoint and the logs as they are now, in order."""
    return [loss for name, topic in sorted(known.items()) for loss in _losses_of(name, topic, logs.get(name))]


def _losses_of(name: str, topic: TopicOffsets, log: TopicLog | None) -> Iterator[Loss]:
    if log is None:
        yield Loss("deleted", name, None, None, f"topic {name} is read no more: deleted, or subscribed no longer")
        return
    if topic.topic_id and log.topic_id and topic.topic_id != log.topic_id:
        yield Loss(
            "recreated",
            name,
            None,
            None,
            f"topic {name} was deleted and created again (id {topic.topic_id}, now {log.topic_id}): the checkpoint's "
            f"offsets {_spans(topic.next)} are those of the old one, and what was not read of it is gone",
        )
        return
    for partition, position in sorted(topic.next.items()):
        if partition not in log.earliest:
            sentence = f"{name}-{partition} is gone: the topic has {partitions(len(log.earliest))} now"
            yield Loss("shrunk", name, partition, None, sentence)
        elif position < log.earliest[partition]:
            first = log.earliest[partition]
            sentence = f"{name}-{partition}: offsets {position} to {first - 1} were deleted before they were read"
            yield Loss("truncated", name, partition, first - position, sentence)
        elif position > log.end[partition]:
            end = log.end[partition]
            sentence = (
                f"{name}-{partition} ends at offset {end}, but the checkpoint is at {position}: what is written there "
                "now is not what this query has read (another cluster, or a log that lost its end)"
            )
            yield Loss("overtaken", name, partition, position - end, sentence)


def partitions(count: int) -> str:
    """Return the count with its noun, for a sentence."""
    return f"{count} partition" if count == 1 else f"{count} partitions"


def _spans(positions: ByPartition) -> str:
    return ", ".join(f"{partition}: {offset}" for partition, offset in sorted(positions.items()))


def refusal(losses: list[Loss]) -> DataLost:
    """Return the error for a query that accepts no loss."""
    what = "; ".join(loss.sentence for loss in losses)
    known = [loss.count is not None for loss in losses]
    if all(known):
        record = "the loss is counted in the checkpoint's offsets"
    elif any(known):
        record = "the loss is logged, and counted in the checkpoint's offsets where its size is known"
    else:
        record = "the loss is logged; the number of lost records is unknown"
    return DataLost(
        f"{what}. Nothing was read. To continue with what there is, set failOnDataLoss=false: {record}. To read "
        "everything that there is again, start with a new checkpointLocation"
    )


def after_losses(known: StreamOffset, losses: list[Loss], logs: Logs) -> StreamOffset:
    """Return where a query continues that accepts these losses, with the loss counted: behind what was deleted, at the
    end of a log that lost its end, at the beginning of a topic that was created again."""
    topics = dict(known)
    for loss in losses:
        log = logs.get(loss.topic)
        if log is None:
            del topics[loss.topic]
        elif loss.kind == "recreated":
            topics[loss.topic] = TopicOffsets(log.topic_id, log.earliest, log.earliest, topics[loss.topic].lost)
        elif loss.partition is not None:
            topics[loss.topic] = _moved(topics[loss.topic], loss, loss.partition, log)
    return topics


def _moved(topic: TopicOffsets, loss: Loss, partition: int, log: TopicLog) -> TopicOffsets:
    if loss.kind == "shrunk":
        return replace(topic, start=_without(topic.start, partition), next=_without(topic.next, partition))
    position = log.earliest[partition] if loss.kind == "truncated" else log.end[partition]
    lost = {**topic.lost, partition: topic.lost.get(partition, 0) + (loss.count or 0)}
    start, following = {**topic.start, partition: position}, {**topic.next, partition: position}
    return replace(topic, start=start, next=following, lost=lost)


def _without(numbers: ByPartition, partition: int) -> ByPartition:
    return {each: offset for each, offset in numbers.items() if each != partition}
