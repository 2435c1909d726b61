"""Where the processor time of a record goes in this client: its steps, without event loop, requests and sockets.

Owns: the steps. Does not own: the whole, which the rounds measure (`__main__`); what is missing to it is the event
loop, the requests, the kernel, and the loop of the benchmark itself. `python -m bench.clients.parts` prints JSON:
microseconds a record by step, the least of many batches, by the size of a value.
"""

import json
import time
from collections.abc import Callable
from uuid import UUID

from oncelog.client.consuming.isolation import AbortedTransactions
from oncelog.client.producing.accumulator import Accumulator
from oncelog.client.producing.batch import ProducerIdentity
from oncelog.client.producing.intake import Intake
from oncelog.client.values.records import Record, TopicPartition
from oncelog.client.wire.metadata import Topic
from oncelog.protocol.records.batch import check_crc, decode_batch, iter_batches, read_header

SIZES = (100, 1_000)
ADD = "send_soon: check, partition, timestamp, encode"
SEAL = "batch: join, header, checksum"
HEADERS = "response: headers, what is hidden"
CHECKSUM = "checksum"
DECODE = "decode"
PRODUCING, CONSUMING = (ADD, SEAL), (HEADERS, CHECKSUM, DECODE)
_BATCH_BYTES = 16_384
_TIMES = 400
_PLACE = TopicPartition("topic", 0)


class Parts:
    """One partition's queue, and one full batch of it."""

    def __init__(self, size: int) -> None:
        self._value = bytes(size)
        self._accumulator = Accumulator(batch_size=_BATCH_BYTES, linger_s=0.005, buffer_memory_bytes=1 << 30)
        self._intake = Intake(
            {_PLACE.topic: Topic(_PLACE.topic, UUID(int=0), (1,))},
            self._accumulator,
            max_record_bytes=1 << 20,
            clock_s=time.monotonic,
            wake=lambda: None,
            check_loop=lambda: None,
            on_failed=lambda _: None,
        )
        self.add()
        self._encoded = self.seal()
        self.record_count = read_header(self._encoded).record_count

    def add(self) -> None:
        """Records until a batch is full; the one that did not fit begins the next."""
        intake, value = self._intake, self._value
        while True:
            intake.add(_PLACE.topic, None, value, (), 0, None)
            if intake.has_filled_a_batch:
                break

    def seal(self) -> bytes:
        queue = self._accumulator.queue(_PLACE)
        batch = queue.take(ProducerIdentity(1, 0), time.monotonic(), compression="none", transactional=False)
        if batch is None or batch.encoded is None:
            raise AssertionError("a full batch can be sent")
        queue.on_written(batch, 0, -1)
        return batch.encoded

    def steps(self) -> dict[str, Callable[[], object]]:
        """In the order of their execution."""
        view = memoryview(self._encoded)
        header = read_header(view)
        return {
            ADD: self.add,
            SEAL: self.seal,
            HEADERS: lambda: [AbortedTransactions(()).hides(*each) for each in iter_batches(view)],
            CHECKSUM: lambda: check_crc(view),
            DECODE: lambda: decode_batch(header, view, Record, _PLACE),
        }


def cpu_us(times: int = _TIMES) -> dict[str, dict[str, float]]:
    found = {}
    for size in SIZES:
        parts = Parts(size)
        steps = parts.steps()
        least = dict.fromkeys(steps, float("inf"))
        for _ in range(times):
            for name, run in steps.items():
                started_ns = time.process_time_ns()
                run()
                least[name] = min(least[name], time.process_time_ns() - started_ns)
        found[str(size)] = {name: ns / parts.record_count / 1_000 for name, ns in least.items()}
    return found


if __name__ == "__main__":
    print(json.dumps(cpu_us()))
