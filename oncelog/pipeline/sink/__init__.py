"""Spark's results to topics (and Delta tables), each micro-batch exactly once and whole.

Spark runs a batch again when its driver died before Spark noted that the batch was done: it re-executes instead of
remembering. So the sink has to remember, in the same transaction as the data: a *marker*, one record per sink in a
compacted topic, which says the number of the last applied batch. It does not expire.

    tasks    rows → record batches without a producer (`encoding`), kept in a spool file or a message (`spool`, `task`)
    driver   fence → read the marker → decide → send batches and marker → EndTxn           (`publish`, `marker`)

- **One transaction per micro-batch**, whatever number of tasks, topics and outputs it has: its records become visible
  together, and with the marker. How the rows were split into tasks does not matter, so a batch that runs again may be
  split differently.
- **Fence first, then read the marker.** When InitProducerId has returned, an earlier driver is fenced and its last
  transaction is decided: what is read afterwards is final.
- **The decision is a strict table** (`marker.decide`): publish, skip what is applied, or refuse with a sentence. An old
  checkpoint, a lost marker, another query under the same name: none is skipped silently. What is skipped is compared
  with what was published (`marker.check_same`), and is a line in the log.
- The transaction is open only while the driver sends: tasks may take hours.

`writers` has `format("oncelog")`, `exactly_once` and `publisher` the doors for `foreachBatch`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncelog.pipeline.sink.marker import MarkerMismatch
    from oncelog.pipeline.sink.outputs import exactly_once, publisher
    from oncelog.pipeline.sink.publish import Outcome, Step

__all__ = ["MarkerMismatch", "Outcome", "Step", "exactly_once", "publisher"]

_WHERE = {
    "MarkerMismatch": "marker",
    "Outcome": "publish",
    "Step": "publish",
    "exactly_once": "outputs",
    "publisher": "outputs",
}


def __getattr__(name: str) -> Any:
    # Imported on first use: Spark starts a process per batch that needs a part of them.
    from importlib import import_module

    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
