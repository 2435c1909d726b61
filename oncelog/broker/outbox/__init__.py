"""Records that SQL transactions produce, where the broker keeps its own records in the same PostgreSQL.

`oncelog.produce(topic, key, value)` in a user's transaction inserts a row into `oncelog_outbox`. The broker that has
the lease looks for such rows, and appends them to their logs, which decides their offsets. The statement that writes
the round with these records deletes the rows. So a record is durable exactly if its row is gone: whatever is killed,
each row that was committed becomes one record, and there is no position to keep, nothing to relay and no marker.

Order. A look takes rows in the order of their ids, and the next look begins when the round of the last one has ended.
Ids are given out when a row is produced, not when it is committed, so a smaller id may become visible later: it is
taken then, since rows are deleted and not passed by. Two transactions that lock the same row of a table, and produce
after that, are in the order of their commits: the second one's id is greater, and a look that sees its row sees the
first one's. Between transactions that have nothing in common there is no order.

The records of a transaction become readable in one step if a look takes all of them, and in several otherwise.

A row that no log takes (its topic is not there, it is too large) is moved to `oncelog_outbox_refused` with the reason,
and holds up nothing. One whose log cannot be written for a moment waits, with those behind it of the same partition.

Modules: `rows` turns the rows of a look into batches and refusals, `feeder` looks and appends.
"""
