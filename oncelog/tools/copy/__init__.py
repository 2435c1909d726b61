"""`oncelog copy`: topics and group offsets of one cluster copied to another, each record exactly once.

Both may be any Kafka cluster; the copy is a client of both. It reads committed record batches, undecoded, and writes
them in transactions. Each transaction also writes, to a topic of its own on the target, how far it has read and at
which offsets its records went: so whatever fails, and whenever, the position and the records are both there, or
neither.

Why a topic of its own (compacted, one partition, `__oncelog_copy.SOURCE_CLUSTER_ID`) and not offsets of a group:
offsets of a group without members expire (`offsets.retention.minutes`, seven days), also those of a partition that is
only idle, and a copy that has lost its position would begin again. And the topic holds what a group cannot: where each
source offset is on the target, from which committed offsets of consumer groups are translated.

One way that data flows: `survey` compares both clusters and says what is to be done, or why nothing can be; `copying`
reads from the source, has `bundles` make batches that a producer may send, and commits them with what `state` makes of
`runs`, the offsets; `groups` translates committed offsets with these. After any failure all of it begins again from the
topic on the target.

Invariants: one copy of a pair of clusters writes (its transactional id is made of both cluster ids: a second one fences
the first); the copy is the only writer of what it copies, so that a run of source offsets is a run of target offsets; a
position is never reset: an offset that the source does not have ends the copy with a sentence.
"""
