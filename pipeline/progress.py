"""What `query.lastProgress` says about the source.

Spark gives a Python source no place for metrics of its own (`sources[].metrics` stays empty), but it shows three
offsets, and those say where the query is, where the log is stable, and what was lost.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from oncelog.client import TopicPartition
from oncelog.pipeline.source.offsets import StreamOffset, from_json


def lag(progress: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """How many offsets each partition had to the last stable one when the batch was planned, from its end on.

        query.lastProgress → {TopicPartition("purchases", 0): 120}

    Sources of other formats are left out.
    """
    found = {}
    for end, latest in _offsets(progress):
        for name, topic in latest.items():
            for partition, stable in topic.next.items():
                position = end[name].next.get(partition) if name in end else None
                if position is not None:
                    found[TopicPartition(name, partition)] = max(0, stable - position)
    return found


def lost(progress: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """How many offsets were lost over the life of the query, with failOnDataLoss=false."""
    return {
        TopicPartition(name, partition): count
        for end, _ in _offsets(progress)
        for name, topic in end.items()
        for partition, count in topic.lost.items()
    }


def _offsets(progress: Mapping[str, Any]) -> Iterator[tuple[StreamOffset, StreamOffset]]:
    for source in progress["sources"]:
        texts = source["endOffset"], source["latestOffset"]
        values = [json.loads(text) if isinstance(text, str) else text for text in texts]
        if all(isinstance(value, dict) and "topics" in value for value in values):
            yield from_json(values[0]), from_json(values[1])
