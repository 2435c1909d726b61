"""`oncelog outbox`: events of SQL transactions in PostgreSQL, written to Kafka, each exactly once.

An application calls `oncelog.produce(topic, key, value)` in its own SQL transaction. The event is in the write-ahead
log, or in a table, if and only if that transaction commits. The relay reads them in the order of commits, and writes
whole SQL transactions in one Kafka transaction, together with the position at which they end, in a compacted topic of
the target. So whatever is killed, and whenever, an event and the position behind it are both there, or neither. It is
the design of `oncelog copy` with a place in a database for an offset, and works with any Kafka.

One way that data flows: a feed (`slot_feed`, `table_feed`) turns the database's messages and rows into `events`;
`relay` writes them in transactions of `target`, with the position (`position`), and confirms to the feed what is
durable there. After a failure that passes by itself `relaying` starts over from the target. `position` decides where a
start continues, or why it must not.

Invariants: one relay of a name writes (its transactional id is the name: a second one fences the first); an event is
confirmed to the database only once Kafka has committed it and the position behind it, so the slot is never ahead of the
position; a position is never guessed: a relay that cannot continue ends with a message, which says what `--go-on` would
do.
"""
