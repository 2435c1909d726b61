"""The share coordinator: keeps the durable state of share-partitions (KIP-932).

A share-partition is a partition of a topic as one share group sees it: where reading starts, and which offsets above
that are acknowledged, archived, or available again after so many deliveries. The group's coordinator begins and ends
it; the leader of the partition reads it once, and writes each change. In Kafka these are requests between brokers
(keys 83 to 87). Here the same operations serve them and the parts of this broker.

**What is logged.** A ShareSnapshot in `__share_group_state` is the whole state, a ShareUpdate what a write has changed
(`records`). After so many updates a snapshot follows. The newest record of a key is therefore not enough: every record
from the last snapshots on is replayed, and batches are combined again as they were (`batches`).

**Who may write.** Each share-partition has two epochs (`shard`). Its state epoch rises when it begins again, as after
a reset of its start; its leader epoch when another node reads it as the partition's leader. Who comes with an older
one is fenced (`decisions`).

**What the log keeps.** The oldest among the last snapshots is where a replay has to begin. A share-partition that does
not change would keep the log from there for ever, so its snapshot is written again from time to time; then the log
start is moved (`coordinator`).
"""
