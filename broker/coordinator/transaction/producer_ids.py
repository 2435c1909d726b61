"""Producer ids, handed out from blocks that the metadata log gives.

Owns: the current block. Invariant: a block is durable in the metadata log before its first id leaves, so no id is ever
given twice, whatever crashes; what is left of a block is lost with a restart (Kafka's ProducerIdManager, KIP-730).
"""

from broker.completion import Completion
from broker.metadata_log import MetadataLog
from protocol.generated.producer_ids_record import ProducerIdsRecord

BLOCK_SIZE = 1_000


class ProducerIdManager:
    def __init__(self, metadata: MetadataLog, node_id: int) -> None:
        self._metadata = metadata
        self._node_id = node_id
        self._next = 0
        self._end = 0
        self._waiting: list[Completion[int]] = []

    def next_id(self) -> Completion[int]:
        """An id that nobody has; at once, or when the next block is durable."""
        if self._next < self._end and not self._waiting:
            self._next += 1
            return Completion.of(self._next - 1)
        answer: Completion[int] = Completion()
        self._waiting.append(answer)
        if len(self._waiting) == 1:
            self._fetch_block()
        return answer

    def _fetch_block(self) -> None:
        start = self._metadata.state.next_producer_id
        record = ProducerIdsRecord(broker_id=self._node_id, broker_epoch=0, next_producer_id=start + BLOCK_SIZE)

        def on_durable(written: Completion[None]) -> None:
            waiting, self._waiting = self._waiting, []
            if written.error is not None:
                for answer in waiting:
                    answer.fail(written.error)
                return
            self._next, self._end = start, start + BLOCK_SIZE
            for index, answer in enumerate(waiting):
                if self._next == self._end:
                    self._waiting = waiting[index:]
                    self._fetch_block()
                    return
                self._next += 1
                answer.complete(self._next - 1)

        self._metadata.write([record]).then(on_durable)
