"""Share-partitions: a partition's records as a queue that the members of a share group read together (KIP-932).

**One share-partition** (`partition`). Records between its start offset and the last that was handed out are *in flight*
(`in_flight`, `in_flight_batch`): each of them is available, acquired by one member until its lock expires (`locks`),
acknowledged, or archived. A fetch acquires what it has read (`acquiring`, from `fetched`); acknowledgements, closed
sessions and expired locks change it (`acknowledging`). Below the start offset all is done.

**Two kinds of change.** An acquisition is in memory alone: after a failure its records are available again. All others
are decided first, as a `StateChange` (`values`) that changes nothing; the caller has the share coordinator write its
batches, and applies it in the same turn if that is accepted. So no record is acknowledged that is not in the log, and a
refused acknowledgement leaves no trace.

**Pure.** Time, settings and fetched records are arguments. The log, the share coordinator, sessions and requests are
unknown here.
"""
