"""What waits behind open transactions in the topics that a query reads, now.

Owns: which partitions those are: the checkpoint's, if this cluster has the topics with these ids (the sink's cluster
may be another than the source's). Does not own: whose transaction it is (`pipeline.source.waiting`).
"""

import asyncio

from oncelog.client import AdminOptions, KafkaError, TopicPartition
from oncelog.client.blocking.clients import Admin
from oncelog.pipeline.sink.checkpoint import Checkpoint, planned
from oncelog.pipeline.source.offsets import StreamOffset
from oncelog.pipeline.source.waiting import Waiting, describe, find_gaps, wall_clock_ms


async def waiting_behind(
    checkpoint: Checkpoint, last_planned: int | None, bootstrap: str, options: AdminOptions
) -> tuple[Waiting, ...] | None:
    """Return what waits; None if the checkpoint names no topic of this cluster, or this user may not look. Raises
    CheckpointError."""
    if last_planned is None:
        return None
    _, offsets = planned(checkpoint.offsets(last_planned))
    return await asyncio.to_thread(_look, [each for each in offsets if each], bootstrap, options)


def _look(sources: list[StreamOffset], bootstrap: str, options: AdminOptions) -> tuple[Waiting, ...] | None:
    wanted = {name: topic for source in sources for name, topic in source.items()}
    if not wanted:
        return None
    try:
        with Admin(bootstrap, **options) as admin:
            here = wanted.keys() & {*admin.list_topics()}
            ids = {each.name: str(each.topic_id) for each in admin.describe_topics(*sorted(here))} if here else {}
            same = [name for name in sorted(here) if wanted[name].topic_id in ("", ids[name])]
            if not same:
                return None
            gaps = find_gaps(admin, [TopicPartition(name, index) for name in same for index in wanted[name].next])
            return tuple(describe(admin, place, gap, wall_clock_ms()) for place, gap in gaps.items())
    except KafkaError:
        return None
