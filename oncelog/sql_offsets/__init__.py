"""A group's offsets in the user's own SQL database, advanced in the transaction that writes the results there.

A program that writes results into a database cannot commit them together with its offsets in Kafka. Here the database
has both. A table has the next offset of each partition, and the transaction that writes the results of a batch advances
it by compare-and-set: from where the batch begins to where it ends, if it is still there. So a batch is in the database
with its position, or neither is.

No fencing and no generation of the group is needed. A partition is a fixed sequence of records, so any instance that
starts at the offset in the table processes the same ones; of two instances that have the same partition for a while,
the row lets one advance, and the other one's transaction is rolled back with all that it wrote. The broker is only read
from: any Kafka will do.

`offsets` follows a consumer and its assignments, `batch` is a batch and its move, `table` the statements,
`connections` the libraries that can execute them. None of the libraries is imported before a connection of it is used.
"""

from oncelog.sql_offsets.batch import BlockingSqlBatch, SqlBatch
from oncelog.sql_offsets.offsets import SqlOffsets
from oncelog.sql_offsets.table import PositionMoved

__all__ = ["BlockingSqlBatch", "PositionMoved", "SqlBatch", "SqlOffsets"]
