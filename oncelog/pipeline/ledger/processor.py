"""The state of a customer in Spark: `transformWithState` calls this with the purchases of one customer and one batch.

Owns: the columns that go in, stay and come out. Does not own: the arithmetic (`balance`). The state has no expiry: a
balance is for ever. Columns are types and not text: Spark Connect would ask the server what the text means, which it
refuses while a declarative pipeline is being declared.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType, StructField, StructType

from oncelog.pipeline.ledger.balance import Balance, add, levels_between

INPUT = StructType(
    [StructField("customer", StringType()), StructField("cents", LongType()), StructField("late", BooleanType())]
)
STATE = StructType([StructField(name, LongType()) for name in Balance._fields])
BALANCE = StructType(
    [StructField("customer", StringType()), *STATE.fields, StructField("levels", ArrayType(LongType()))]
)


class BalanceProcessor(StatefulProcessor):
    """Turns `INPUT` of one customer into one row of `BALANCE`."""

    def init(self, handle: Any) -> None:
        self._state = handle.getValueState("balance", STATE)

    def handleInputRows(self, key: Any, rows: Iterable[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        before = Balance(*(self._state.get() or ()))
        after = add(before, ((row.cents, row.late) for row in rows))
        self._state.update(tuple(after))
        yield Row(customer=key[0], **after._asdict(), levels=levels_between(before.cents, after.cents))

    def close(self) -> None:
        pass
