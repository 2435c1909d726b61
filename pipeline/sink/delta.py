"""A micro-batch into a Delta table, once: the table itself remembers the batch, as an application's transaction.

Owns: that check. Written by delta-rs (the extra `delta`), without a jar. A transaction of Kafka cannot include a table,
so the topics come first: a driver that is fenced there writes to no table, and one that dies between the two finds at
its next start that the topics have the batch and the table has not.
"""

from collections.abc import Mapping
from typing import Any

from oncelog.pipeline.sink.marker import MarkerMismatch


class DeltaMissing(ImportError):
    """The extra `delta` is not installed."""


def write_delta(
    location: str, rows: Any, app_id: str, batch_id: int, offsets: bytes, storage_options: Mapping[str, str]
) -> bool:
    """Append `rows`, a pyarrow Table, as batch `batch_id` of `app_id`; False if the table has that batch already.

    Raises DeltaMissing, MarkerMismatch if the table is ahead of the batch, and delta-rs' errors.
    """
    try:
        from deltalake import CommitProperties, Transaction, write_deltalake
    except ImportError as error:
        raise DeltaMissing("to_delta needs deltalake: pip install 'oncelog[delta]'") from error
    applied = applied_batch(location, app_id, storage_options)
    if applied == batch_id:
        return False
    if applied is not None and applied > batch_id:
        raise MarkerMismatch(
            f"table {location} has the batches up to {applied} of {app_id} already, and this is batch {batch_id}: this "
            "is an old copy of the checkpoint"
        )
    write_deltalake(
        location,
        rows,
        mode="append",
        storage_options=dict(storage_options),
        # Two writers of one batch: the second finds the transaction in the log when it commits, and fails.
        commit_properties=CommitProperties(
            app_transactions=[Transaction(app_id, batch_id)],
            custom_metadata={"oncelog.batch": str(batch_id), "oncelog.offsets": offsets.decode(errors="replace")},
        ),
    )
    return True


def applied_batch(location: str, app_id: str, storage_options: Mapping[str, str]) -> int | None:
    """The last batch of an application that the table has. None: no batch, or no table."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    try:
        version: int | None = DeltaTable(location, storage_options=dict(storage_options)).transaction_version(app_id)
    except TableNotFoundError:
        return None
    return version
