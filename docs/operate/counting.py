"""Writes numbers in transactions, or verifies them, while nodes come and go: docs/operate/standby.md.

    python counting.py write BOOTSTRAP               each number to both partitions of a topic, in one transaction
    python counting.py verify BOOTSTRAP [COUNT]      each is there once and in order, up to COUNT, or without end

Both may be killed, and continue when they are started again: what is committed says where they were.
"""

import asyncio
import sys

from oncelog import Admin, Consumer, NewTopic, Producer, TopicPartition

TOPIC = "numbers"
PARTITIONS = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]


async def prepare(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics(NewTopic(TOPIC, len(PARTITIONS)), exist_ok=True)


def reader(bootstrap: str) -> Consumer:
    return Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest")


class Check:
    """What was read: in each partition 0, 1, 2 and so on."""

    def __init__(self) -> None:
        self.next = dict.fromkeys(PARTITIONS, 0)

    async def read(self, consumer: Consumer) -> None:
        for record in await consumer.poll(1_000):
            place = TopicPartition(record.topic, record.partition)
            if int(record.value or b"") != self.next[place]:
                sys.exit(f"{TOPIC}-{place.partition} has {record.value!r} in the place of {self.next[place]}")
            self.next[place] += 1


async def write(bootstrap: str) -> None:
    await prepare(bootstrap)
    async with Producer(bootstrap, transactional_id="numbers") as producer, reader(bootstrap) as consumer:
        await producer.init_transactions()  # what was open is aborted, what was decided is complete
        check = Check()
        consumer.assign(PARTITIONS)
        ends = await consumer.end_offsets(PARTITIONS)
        while any([await consumer.position(each) < ends[each] for each in PARTITIONS]):
            await check.read(consumer)
        number = min(check.next.values())
        while True:
            async with producer.transaction() as transaction:
                for each in PARTITIONS:
                    await transaction.send_soon(TOPIC, str(number).encode(), partition=each.partition)
            number += 1


async def verify(bootstrap: str, count: int | None) -> None:
    await prepare(bootstrap)
    async with reader(bootstrap) as consumer:
        consumer.assign(PARTITIONS)
        check, said = Check(), 0
        while count is None or min(check.next.values()) < count:
            await check.read(consumer)
            found = min(check.next.values())
            if found // 1_000 > said:
                said = found // 1_000
                print(f"0 to {found - 1}: each once and in order, in both partitions", flush=True)
    print(f"{count} numbers are there, each once and in order, in both partitions")


if __name__ == "__main__":
    if sys.argv[1] == "write":
        asyncio.run(write(sys.argv[2]))
    else:
        asyncio.run(verify(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else None))
