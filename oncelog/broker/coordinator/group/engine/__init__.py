"""What all types of groups share: a type is its values and a table of records, and the engine does the rest.

A consumer, a share or a streams group is what its records add up to. A request to one is decided on a copy: each step
is a *change* (`changes`), applied to the copy and encoded as a record (`update`). The batch is logged, replayed into
the shard (`shard`), and only then do timers follow (`writer`, `sessions`). The rule for when a target assignment may be
computed again stands in `update` alone.

A type brings its members and their metadata as values, its assignor, its reconciliation, and an entry (`kind`) with one
table: record type to key, value, encoder and decoder. The types stand side by side, and none imports another. What one
needs of classic groups it asks of the life of their shard (`shard_life`).
"""
