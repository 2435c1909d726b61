"""What a coordinator appends without validation is what the general append of the same batch writes and answers."""

from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.log.partition_log import AppendOrigin, PartitionLog
from oncelog.broker.log.values import AppendResult, Writer
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.fakes.logs import Logs

Entry = tuple[bytes | None, bytes | None]
Batch = tuple[list[Entry], int, int]

entries = st.tuples(st.none() | st.binary(max_size=80), st.none() | st.binary(max_size=200))
batches = st.lists(
    st.tuples(st.lists(entries, min_size=1, max_size=3), st.integers(-1, 1), st.integers(0, 2)), max_size=6
)
settings = st.fixed_dictionaries(
    {
        "message_timestamp_type": st.sampled_from(["CreateTime", "LogAppendTime"]),
        "compression_type": st.sampled_from(["producer", "gzip"]),
        "max_message_bytes": st.sampled_from([150, 1_000_000]),
        "segment_bytes": st.sampled_from([200, 1_000_000]),
    }
)


def records_of(logs: Logs, found: list[Entry]) -> list[Record]:
    return [Record(index, logs.clock.wall_ms(), key, value) for index, (key, value) in enumerate(found)]


def append_own(logs: Logs, log: PartitionLog, batch: Batch) -> AppendResult:
    found, producer_id, epoch = batch
    writer = Writer(producer_id, epoch if producer_id >= 0 else -1, 0)
    return log.append_own(records_of(logs, found), logs.clock.wall_ms(), writer)


def append_any(logs: Logs, log: PartitionLog, batch: Batch) -> AppendResult:
    found, producer_id, epoch = batch
    data = encode_batch(
        records_of(logs, found),
        producer_id=producer_id,
        producer_epoch=epoch if producer_id >= 0 else -1,
        transactional=producer_id >= 0,
    )
    return logs.append(log, memoryview(data), AppendOrigin.COORDINATOR)


@given(settings, batches)
def test_own_batches_are_those_that_the_general_append_would_write(
    chosen: dict[str, str | int], appended: list[Batch]
) -> None:
    sides = []
    for append in (append_own, append_any):
        logs = Logs()
        log = logs.open(**chosen)
        log.lead(3)
        answers: list[AppendResult | ErrorCode] = []
        for batch in appended:
            logs.clock.time_ms += 7
            try:
                answers.append(append(logs, log, batch))
            except KafkaError as error:
                answers.append(error.code)
        logs.flush()
        stored = [bytes(batch) for _, batch in log.batches()]
        producers = [
            (state.producer_id, state.producer_epoch, state.batches, state.current_transaction_first_offset)
            for state in log.producer_state.producers()
        ]
        sides.append((answers, stored, producers, log.last_stable_offset))
    assert sides[0] == sides[1]
