"""A producer that sends batches encoded elsewhere: under its own identity, in order, in its transactions."""

import pytest

from oncelog.client import ConfigError, Consumer, Producer, TopicPartition
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.support.processes.daemon import Daemon


def batch(*values: bytes, compression: str = "none", producer_id: int = -1) -> bytes:
    records = [Record(index, 1_000 + index, b"key", value) for index, value in enumerate(values)]
    return encode_batch(records, compression=compression, producer_id=producer_id)


async def read(daemon: Daemon, topic: str, count: int) -> list[bytes | None]:
    async with Consumer(bootstrap_servers=daemon.bootstrap, isolation_level="read_committed") as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        values: list[bytes | None] = []
        while len(values) < count:
            values += [record.value for record in await consumer.poll(5_000)]
        return values


async def test_encoded_batches_and_records_keep_their_order(daemon: Daemon) -> None:
    async with Producer(daemon.bootstrap, linger_ms=1_000) as producer:
        await producer.send_soon("ordered", b"1", partition=0)
        delivery = await producer.send_batch("ordered", 0, batch(b"2", b"3", compression="gzip"))
        await producer.send_soon("ordered", b"4", partition=0)
        await producer.flush()
        metadata = await delivery
    assert (metadata.offset, metadata.timestamp_ms) == (1, 1_000)
    assert await read(daemon, "ordered", 4) == [b"1", b"2", b"3", b"4"]


async def test_an_encoded_batch_is_part_of_the_transaction(daemon: Daemon) -> None:
    async with Producer(daemon.bootstrap, transactional_id="encoded") as producer:
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction() as transaction:
                await transaction.send_batch("together", 0, batch(b"dropped"))
                raise ZeroDivisionError
        async with producer.transaction() as transaction:
            await transaction.send_batch("together", 0, batch(b"kept"))
    assert await read(daemon, "together", 1) == [b"kept"]


async def test_what_is_not_one_whole_batch_without_a_producer_is_refused(daemon: Daemon) -> None:
    whole = batch(b"value")
    async with Producer(daemon.bootstrap) as producer:
        for bad in (
            b"",
            whole + whole,
            whole[:-1],
            whole[:-1] + bytes((whole[-1] ^ 1,)),
            batch(b"value", producer_id=7),
        ):
            with pytest.raises(ConfigError, match="send_batch"):
                await producer.send_batch("refused", 0, bad)
        with pytest.raises(ConfigError, match="partition 5"):
            await producer.send_batch("refused", 5, whole)
