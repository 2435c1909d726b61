"""Producer identity without transactions (KIP-98, KIP-679): none, or an id from InitProducerId.

Owns: requesting an id, and a new one after a numbered batch failed for good, since the log would see a gap. Does not
own: sequences (`accumulator`).
"""

import asyncio

from oncelog.client.producing.batch import Batch, ProducerIdentity
from oncelog.client.producing.sender import Sender
from oncelog.client.values.errors import KafkaError, raise_for
from oncelog.client.values.records import TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.cluster import Cluster
from oncelog.client.wire.producer_apis import INIT_PRODUCER_ID, PRODUCE
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest

_NO_IDENTITY = ProducerIdentity()
_TIMEOUT_MS = 60_000


class PlainGate:
    """The gate of enable.idempotence=false: every partition may be written to, without an identity."""

    transactional_id: str | None = None
    produce_api = PRODUCE

    def identity(self) -> ProducerIdentity | None:
        return _NO_IDENTITY

    def may_send(self, topic_partition: TopicPartition) -> bool:
        return True

    def may_retry(self) -> bool:
        return True

    def on_failed(self, batch: Batch, error: KafkaError) -> None:
        pass


class IdempotentGate:
    """The gate that requests a producer id when one is first needed; until then the sender waits."""

    transactional_id: str | None = None
    produce_api = PRODUCE

    def __init__(self, cluster: Cluster, sender: Sender) -> None:
        self._cluster = cluster
        self._sender = sender
        self._identity: ProducerIdentity | None = None
        self._asking: asyncio.Task[None] | None = None

    def identity(self) -> ProducerIdentity | None:
        if self._identity is None and self._asking is None:
            self._asking = asyncio.ensure_future(self._ask())
        return self._identity

    def may_send(self, topic_partition: TopicPartition) -> bool:
        return True

    def may_retry(self) -> bool:
        return True

    def on_failed(self, batch: Batch, error: KafkaError) -> None:
        if batch.identity == self._identity and batch.sequence >= 0:
            self._identity = None

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_TIMEOUT_MS)
        try:
            deadline = Deadline.after(_TIMEOUT_MS)
            response = await self._cluster.call_any(INIT_PRODUCER_ID, request, deadline, lambda each: each.error_code)
            raise_for(response.error_code)
            self._identity = ProducerIdentity(response.producer_id, response.producer_epoch)
        except KafkaError as error:
            # An unreachable broker is retried on the next need; an error response fails everything that waits now.
            if not error.retriable:
                self._sender.accumulator.abandon(error)
        finally:
            self._asking = None
            self._sender.wake()
