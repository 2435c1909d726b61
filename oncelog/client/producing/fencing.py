"""Finds out what fenced a producer, as far as its coordinator knows (KIP-664).

Owns: what DescribeTransactions says about a fence. Does not own: noticing it (`transaction_manager`).

A fence is a higher epoch, and a response does not name its cause. The state of the transactional id narrows it down: an
instance and an operator begin with InitProducerId, a timeout does not. `Admin.fence_producer` leaves a transaction
timeout that no producer has, so that it is recognised as an operator's; another tool's fence looks like an instance
that has not begun a transaction yet.
"""

from contextlib import suppress

from oncelog.client.admin.transactions import OPERATORS_TIMEOUT_MS, describe_transaction
from oncelog.client.producing.batch import ProducerIdentity
from oncelog.client.values.errors import FencedBy, KafkaError
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.cluster import Cluster
from oncelog.protocol.transaction_states import meaning_of

_ASK_AGAIN_MS = 10
"""How soon the InitProducerId is repeated that caused the abort of an open transaction."""


async def who_fenced(
    cluster: Cluster, transactional_id: str, fenced: ProducerIdentity, *, is_overdue: bool, deadline: Deadline
) -> FencedBy:
    """Find out what fenced the producer; never raises. `is_overdue` says that its transaction was open for longer than
    its timeout."""
    with suppress(KafkaError):
        while True:
            found = await describe_transaction(cluster, transactional_id, deadline)
            if (found.producer_id, found.producer_epoch) == (fenced.producer_id, fenced.producer_epoch):
                return "unknown"
            if meaning_of(found.state).outcome != "ABORT":
                return "operator" if found.timeout_ms == OPERATORS_TIMEOUT_MS else "instance"
            if is_overdue:
                return "timeout"
            await deadline.pause(_ASK_AGAIN_MS, "DESCRIBE_TRANSACTIONS")
    return "unknown"
