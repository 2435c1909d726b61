"""The kinds of mistakes that the witness knows.

Owns: their names, which are anchors of docs/operate/witness.md, their severity, what to change. Does not own: how one
is recognised (`witness`).
"""

from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["wrong", "look"]
"""How bad it is. "wrong": records are lost, repeated, or read although they are aborted. "look": it may be intended."""
PAGE: Final = "docs/operate/witness.md"


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    severity: Severity
    change: str
    """The advice, as a sentence."""

    @property
    def page(self) -> str:
        return f"{PAGE}#{self.name}"


OFFSETS_OUTSIDE_TRANSACTION: Final = Kind(
    "offsets-outside-transaction",
    "wrong",
    "Commit offsets with send_offsets_to_transaction() of the producer alone: enable.auto.commit=false on the "
    "consumer, and no commit() of its own.",
)
GROUP_METADATA_MISSING: Final = Kind(
    "group-metadata-missing",
    "wrong",
    "Pass the consumer's group metadata, not the group's name, to send_offsets_to_transaction().",
)
READS_UNCOMMITTED: Final = Kind(
    "reads-uncommitted", "wrong", "Set isolation.level=read_committed on the consumer, or read another topic."
)
TRANSACTIONAL_ID_SHARED: Final = Kind(
    "transactional-id-shared",
    "wrong",
    "Give each live instance a transactional.id of its own that it keeps over its restarts.",
)
TRANSACTION_TIMEOUT: Final = Kind(
    "transaction-timeout",
    "look",
    "Set transaction.timeout.ms of the producer to session.timeout.ms of the consumer or less.",
)
COMMIT_AFTER_FAILED_PRODUCE: Final = Kind(
    "commit-after-failed-produce",
    "wrong",
    "Check the result of every send, and abort the transaction if one has failed.",
)
TORN_TRANSACTIONS: Final = Kind(
    "torn-transactions",
    "look",
    "Use a client that speaks version 2 of the transaction protocol (KIP-890), with transaction.version=2 on the "
    "cluster.",
)
ACKS_BELOW_ALL: Final = Kind("acks-below-all", "look", "Set acks=all on this producer, or let it write other topics.")
LATE_ACKNOWLEDGEMENT: Final = Kind(
    "late-acknowledgement",
    "wrong",
    "Renew the lock while the work lasts, fetch fewer records at a time, or set a longer share.record.lock.duration.ms "
    "for the group.",
)
SHARE_GROUP_BESIDE_TRANSACTIONS: Final = Kind(
    "share-group-beside-transactions",
    "look",
    "Read with a consumer group and send_offsets_to_transaction(), or make the results safe to write twice: an "
    "acknowledgement is not part of a transaction.",
)

KINDS: Final = (
    OFFSETS_OUTSIDE_TRANSACTION,
    GROUP_METADATA_MISSING,
    READS_UNCOMMITTED,
    TRANSACTIONAL_ID_SHARED,
    TRANSACTION_TIMEOUT,
    COMMIT_AFTER_FAILED_PRODUCE,
    TORN_TRANSACTIONS,
    ACKS_BELOW_ALL,
    LATE_ACKNOWLEDGEMENT,
    SHARE_GROUP_BESIDE_TRANSACTIONS,
)
