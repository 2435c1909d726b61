"""Where the protocol allows more than Apache Kafka does: which of the two this broker does (`oncelog.compat`).

Owns: every such difference, on this one page, with its reason. Does not own: the behaviour, which is where the field is
read. No other code reads the setting. docs/compare/compatibility.md documents the same for users.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Compatibility:
    keeps_last_epoch: bool
    """Whether the epoch before a bump is logged. Kafka's records have no field for it: there, a restart between the
    response to InitProducerId and its retry fences the producer (KIP-360)."""
    retries_classic_ends: bool
    """Whether EndTxn 5 by a replaced instance counts as a retry of an end that its successor made with an older
    version. Kafka returns the successor's producer id and epoch, and both instances continue with them (KIP-890)."""
    fences_late_commits: bool
    """Whether EndTxn 5 that commits what the coordinator has aborted meanwhile is PRODUCER_FENCED, as it is up to
    EndTxn 4. In Kafka 4.3 it is INVALID_TXN_STATE, from which Kafka Streams does not recover; later Kafkas respond as
    we do (KAFKA-20785)."""
    keeps_prepared: bool
    """Whether an instance may take over its predecessor's prepared transaction. Kafka 4.3 only parses the request
    (KIP-939)."""
    lists_two_phase_commit: bool
    """Whether unstable versions are listed and served as soon as two-phase commit, which needs one, is enabled. Kafka
    has a separate setting for that."""
    aborts_in_time: bool
    """Whether a transaction is aborted exactly when its timeout expires. Kafka checks every
    `transaction.abort.timed.out.transaction.cleanup.interval.ms`."""
    guards_open_transactions: bool
    """Whether `__transaction_state` cannot be deleted while a transaction is open. In Kafka such a transaction then
    hangs, until an operator ends it."""
    remembers_batches: bool
    """Whether five batches of each producer are recognised as duplicates after a clean stop too. Kafka's snapshots have
    one."""
    binds_producer_ids: bool
    """Whether, with an authorizer, a batch may join the open transaction of its producer id only under that
    transaction's own id. Kafka asks for a right on the id in the request, and looks at the producer id alone."""

    creates_topics_at_once: bool
    """Whether the Metadata request that creates a topic returns it. Kafka's broker asks its controller for it and
    returns UNKNOWN_TOPIC_OR_PARTITION, and the client asks again."""


OURS = Compatibility(
    keeps_last_epoch=True,
    retries_classic_ends=False,
    fences_late_commits=True,
    keeps_prepared=True,
    lists_two_phase_commit=True,
    aborts_in_time=True,
    guards_open_transactions=True,
    remembers_batches=True,
    binds_producer_ids=True,
    creates_topics_at_once=True,
)

KAFKA = Compatibility(
    keeps_last_epoch=False,
    retries_classic_ends=True,
    fences_late_commits=False,
    keeps_prepared=False,
    lists_two_phase_commit=False,
    aborts_in_time=False,
    guards_open_transactions=False,
    remembers_batches=False,
    binds_producer_ids=False,
    creates_topics_at_once=False,
)

COMPATIBILITIES: Mapping[str, Compatibility] = MappingProxyType({"oncelog": OURS, "kafka": KAFKA})
"""The compatibility modes, by the values of `oncelog.compat`."""
