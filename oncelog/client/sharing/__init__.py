"""The share consumer: a member of a share group (KIP-932), to which the broker hands out records one by one.

A share group is a queue over topics. Its members share partitions, not only topics: the leader of a partition hands
each record to one member, under a lock that ends by itself (the acquisition lock), and counts how often it did. The
member acknowledges each record: accept, release, reject, or renew the lock. There are no positions, and no order
between members. What is not acknowledged in time is delivered again.

The way of a record: the membership (`membership`) learns which partitions to ask for; the exchange (`exchange`) asks
their leaders, each in a session (`session`), and takes the responses; `pieces` reads what a response has acquired;
`handing_out` returns records to the program and remembers what it says of them (`in_flight`); the exchange takes that
back to the leader that has locked them (`acknowledgements`).

This room owns `ShareConsumer` and all of this. It leaves connections and metadata to `wire`. Invariants: what the
program did not see is never accepted for it; an acknowledgement is sent once a session, to the leader that delivered
the record, and has exactly one outcome.
"""
