"""One loader: writes its share of the purchases, in transactions, exactly once whatever happens to it or the broker.

Owns: the loop. Its progress is part of the transaction, as the committed offset of the loader's own group: purchases
and progress become visible together or not at all, so a restart, a lost response or a killed broker costs only the
repetition of one transaction. It causes some faults itself: every `abort_every`th transaction is first aborted and then
sent again.

As `zombie` it writes half a transaction, waits for a signal, and then tries to commit: by then another process has its
transactional id.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from oncelog.client import (
    Consumer,
    ConsumerGroupMetadata,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    Transaction,
)
from oncelog.client.values.errors import FatalError
from oncelog.pipeline.demo.data import Purchase, read_purchases
from oncelog.pipeline.demo.events import emit

_RETRY_S = 0.1


class _Wanted(Exception):
    """Raised for an intended abort."""


def transactional_id_of(loader: int) -> str:
    return f"loader-{loader}"


def share_of(
    purchases: list[Purchase], loader: int, loader_count: int, partition_count: int
) -> list[tuple[int, Purchase]]:
    """Return the (row, purchase) pairs of one loader: whole partitions, so that a customer's purchases keep their
    order.

    The first row is left out: it is written on its own, twice, by `pipeline.demo.duplicate`.
    """
    from oncelog.protocol.partitioning import partition_for_key

    partition_of = {
        customer: partition_for_key(customer.encode(), partition_count)
        for customer in {purchase.customer for purchase in purchases}
    }
    return [
        (row, purchase)
        for row, purchase in enumerate(purchases)
        if row > 0 and partition_of[purchase.customer] % loader_count == loader
    ]


def encode(row: int, purchase: Purchase) -> bytes:
    """Return a purchase as a value. `row` is the line in the file: two otherwise identical purchases are still two."""
    return json.dumps(
        {"row": row, "customer": purchase.customer, "date": purchase.date, "cents": purchase.cents},
        separators=(",", ":"),
    ).encode()


class Loader:
    def __init__(self, arguments: argparse.Namespace, share: list[tuple[int, Purchase]]) -> None:
        self._arguments = arguments
        self._share = share
        self._group = ConsumerGroupMetadata(f"progress-{arguments.loader}")
        self._marker = TopicPartition(arguments.topic, arguments.loader % arguments.partitions)
        self._aborted: set[int] = set()

    def _producer(self) -> Producer:
        return Producer(
            self._arguments.bootstrap,
            transactional_id=transactional_id_of(self._arguments.loader),
            transaction_timeout_ms=60_000,
            max_block_ms=30_000,
            linger_ms=2,
            batch_size=65_536,
        )

    async def run(self) -> None:
        """Run until everything is committed; a fence is final, everything else is retried from the marker."""
        while True:
            try:
                await self._load_from_marker()
                return
            except FatalError:
                raise
            except KafkaError as error:
                emit("retry", loader=self._arguments.loader, error=error.name)
                await asyncio.sleep(_RETRY_S)

    async def _load_from_marker(self) -> None:
        async with self._producer() as producer:
            # The producer is open, and the one before it fenced: no other process can move the marker.
            position = await self.position()
            emit("start", loader=self._arguments.loader, position=position, total=len(self._share))
            while position < len(self._share):
                end = min(position + self._arguments.batch, len(self._share))
                number = position // self._arguments.batch
                if self._wants_abort(number):
                    await self._abort_once(producer, position, end)
                await self._write(producer, position, end)
                position = end
                emit("committed", loader=self._arguments.loader, position=position)

    async def position(self) -> int:
        """Return how many of the share are committed, whichever process has written them."""
        async with Consumer(bootstrap_servers=self._arguments.bootstrap, group_id=self._group.group_id) as group:
            committed = (await group.committed(self._marker)).get(self._marker)
            return committed.offset if committed is not None else 0

    def _wants_abort(self, number: int) -> bool:
        every = self._arguments.abort_every
        return every > 0 and number % every == every - 1 and number not in self._aborted

    async def _abort_once(self, producer: Producer, position: int, end: int) -> None:
        self._aborted.add(position // self._arguments.batch)
        try:
            async with producer.transaction() as transaction:
                await self._send(transaction, self._share[position:end])
                await producer.flush()  # the records are written, and read_uncommitted sees them
                raise _Wanted
        except _Wanted:
            cents = sum(purchase.cents for _, purchase in self._share[position:end])
            emit("aborted", loader=self._arguments.loader, records=end - position, cents=cents)

    async def _write(self, producer: Producer, position: int, end: int) -> None:
        async with producer.transaction() as transaction:
            await self._send(transaction, self._share[position:end])
            await transaction.send_offsets({self._marker: OffsetAndMetadata(end)}, group=self._group)

    async def _send(self, transaction: Transaction, rows: list[tuple[int, Purchase]]) -> None:
        for row, purchase in rows:
            await transaction.send_soon(self._arguments.topic, encode(row, purchase), key=purchase.customer.encode())

    async def be_a_zombie(self) -> None:
        """Write half a transaction, sleep long, and commit, which must be rejected."""
        async with self._producer() as producer:
            transaction = producer.transaction()
            await transaction.__aenter__()
            half = self._share[: max(1, self._arguments.batch // 2)]
            await self._send(transaction, half)
            await producer.flush()
            emit(
                "mid-transaction",
                records=len(half),
                cents=sum(purchase.cents for _, purchase in half),
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
            )
            await asyncio.to_thread(sys.stdin.readline)
            try:
                await transaction.commit()
            except KafkaError as error:
                emit("refused", error=error.name, code=int(error.code) if error.code is not None else None)
            else:
                emit("committed-as-zombie")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Load purchases in transactions.")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--data", default="cdnow")
    parser.add_argument("--input", type=Path)
    parser.add_argument("--loader", type=int, required=True)
    parser.add_argument("--loaders", type=int, required=True)
    parser.add_argument("--batch", type=int, default=500, help="records per transaction")
    parser.add_argument("--abort-every", type=int, default=0, help="abort every n-th transaction, then send it again")
    parser.add_argument("--zombie", action="store_true")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    _, purchases = read_purchases(arguments.data, arguments.input)
    share = share_of(purchases, arguments.loader, arguments.loaders, arguments.partitions)
    loader = Loader(arguments, share)
    asyncio.run(loader.be_a_zombie() if arguments.zombie else loader.run())


if __name__ == "__main__":
    main()
