"""What commands share that write in transactions and continue after what passes: `oncelog copy`, `oncelog outbox run`.

Owns: which errors of a client pass by themselves, a commit whose outcome is known, an epoch that is regained. Does not
own: what is written.
"""

from collections.abc import Callable

from oncelog.client.producing.producer import Producer
from oncelog.client.producing.transaction import Transaction
from oncelog.client.values.errors import (
    CommitUnknown,
    DeliveryTimeout,
    KafkaError,
    OutOfOrderSequence,
    ProducerFenced,
    RetriableError,
    TransactionAborted,
)


async def commit(transaction: Transaction, on_trouble: Callable[[str], None]) -> None:
    """Commit, and retry until the outcome is known: what may be committed is never given up."""
    while True:
        try:
            await transaction.commit()
            return
        except CommitUnknown as error:
            on_trouble(error.message)


def passes(error: KafkaError) -> bool:
    """Whether an error passes by itself, with a new transaction."""
    passing = (RetriableError, DeliveryTimeout, OutOfOrderSequence, TransactionAborted)
    return isinstance(error, passing) or (error.code is not None and error.code.retriable)


async def regain(producer: Producer, fence: ProducerFenced, taken_over: Exception) -> str:
    """Regain the epoch, as the coordinator may have aborted a transaction for its age; returns what to report. Raises
    `taken_over` if another producer has the id."""
    try:
        await producer.regain_epoch()
    except ProducerFenced:
        raise taken_over from fence
    except RetriableError as problem:
        return problem.message
    return fence.message
