"""`oncelog outbox`: what SQL transactions of a PostgreSQL publish, written to Kafka, each event exactly once.

An application calls `oncelog.produce(topic, key, value)` in its own SQL transaction. The event is in the write-ahead
log, or in a table, if and only if that transaction commits. The relay reads them in the order of commits, and writes
whole SQL transactions in one Kafka transaction, together with the position at which they end, in a compacted topic of
the target. So whatever is killed, and whenever, an event and the position behind it are both there, or neither. It is
the design of `oncelog copy` with a place in a database for an offset, and works with any Kafka.

One way that data flows: a feed (`slot_feed`, `table_feed`) turns what the database has into `events`; `relay` takes
them in transactions of `target`, with the position (`position`), and tells the feed what is durable there. `relaying`
begins again from the target after anything that passes. `position` decides where a start continues, or why it must not.

Invariants: one relay of a name writes (its transactional id is the name: a second one fences the first); the database
is told that something may be forgotten only once Kafka has committed it and the position behind it, so the slot is
never ahead of the position; a position is never guessed: what cannot be continued ends the relay with a sentence, and
what `--go-on` does then is in it.
"""
