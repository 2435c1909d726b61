"""What a decision of the coordinator is, and the check that nearly all of them begin with.

Owns: the value. Does not own: any rule but the producer's identity (`decisions`, `endings`).
"""

from dataclasses import dataclass

from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata
from oncelog.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Decision:
    """`target`, if any, is logged; then `error` is the response (NONE with the producer id and epoch as of then)."""

    error: ErrorCode = ErrorCode.NONE
    target: TransactionMetadata | None = None
    needs_producer_id: bool = False
    """The decision needs a fresh producer id: fetch one and decide again."""


NOTHING_TO_DO = Decision()
NEEDS_PRODUCER_ID = Decision(needs_producer_id=True)


def refuse(error: ErrorCode) -> Decision:
    return Decision(error)


def check_producer(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> ErrorCode:
    """NONE, or why this is not the current producer: a higher epoch is as wrong as a lower one."""
    client = metadata.client
    if producer_id != client.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer_epoch != client.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE
