"""Clients that look at bounds: after each acknowledgement, and at several partitions in one Fetch.

Owns: a partition of its own, whose start moves. The auditor (I6) demands that the high watermark of each look covers
what was acknowledged before it, whatever the acks, and (I26) that a look at several partitions sees a transaction in
all of them or in none.
"""

from collections.abc import Generator, Sequence
from random import Random
from typing import Any

from oncelog.protocol.generated.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.clients.simulated import Life, Question, look_by_fetch, look_by_list_offsets, produce
from tests.history.events import Look, Partition, Send
from tests.history.recorder import Recorder

PURGED: Partition = ("purged", 0)
_TO_THE_HIGH_WATERMARK = -1


def purges(recorder: Recorder, random: Random, count: int) -> Life:
    for number in range(count):
        value = b"purged-%d" % number
        pending = recorder.begin(recorder.history.sends, Send(recorder.asked(), "purger", None, PURGED, value))
        offset = yield from produce(random, PURGED, encode_batch([Record(0, 1, None, value)]))
        pending.done(offset=offset)
        look = random.choice([look_by_fetch, look_by_list_offsets, look_by_delete_records])
        yield from look(recorder, PURGED, offset)
        yield random.choice([0, 10, 200])


def compares(recorder: Recorder, random: Random, partitions: Sequence[Partition], count: int) -> Life:
    """The partitions of one topic, in a session or outside of any; most looks wait for records, and see the moment in
    which some become visible."""
    seen: dict[Partition, int] = {}
    session_id = 0
    for number in range(count):
        if number % 10 == 0 or not seen:
            session_id, session_epoch, in_session = 0, random.choice([-1, 0]), {}
            seen = dict.fromkeys(partitions, 0)
        moved = {each: offset for each, offset in seen.items() if in_session.get(each) != offset}
        wanted = [
            FetchPartition(partition=partition[1], fetch_offset=offset, partition_max_bytes=1)
            for partition, offset in (moved if session_epoch >= 0 else seen).items()
        ]
        answer = yield (
            FetchRequest(
                max_wait_ms=random.choice([0, 300, 300]),
                min_bytes=1,
                session_id=session_id,
                session_epoch=session_epoch,
                topics=[FetchTopic(topic=partitions[0][0], partitions=wanted)] if wanted else [],
            ),
            11,
        )
        shown = () if answer is None else [data for topic in answer.responses for data in topic.partitions]
        if answer is None or answer.error_code or any(data.error_code for data in shown):
            seen = {}  # a session ends with its broker
            continue
        if session_epoch >= 0:
            session_id, session_epoch, in_session = answer.session_id, session_epoch + 1, dict(seen)
        seen |= {(partitions[0][0], data.partition_index): data.high_watermark for data in shown}
        recorder.history.looks.append(Look(tuple(seen.items())))
        yield random.choice([0, 1, 20, 200])


def look_by_delete_records(recorder: Recorder, partition: Partition, _: int) -> Generator[Question | int, Any, None]:
    """All below the high watermark goes, so the new start shows where that was."""
    span = recorder.asked()
    everything = DeleteRecordsPartition(partition_index=partition[1], offset=_TO_THE_HIGH_WATERMARK)
    topic = DeleteRecordsTopic(name=partition[0], partitions=[everything])
    answer = yield DeleteRecordsRequest(topics=[topic], timeout_ms=1_000), 2
    if answer is not None:
        found = answer.topics[0].partitions[0]
        if not found.error_code:
            low_watermark = found.low_watermark
            recorder.note_bounds(span, partition, log_start_offset=low_watermark, high_watermark=low_watermark)
