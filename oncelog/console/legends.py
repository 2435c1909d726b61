"""What each number on a page counts, by the heading that it stands under: the legend below the page.

Owns: one sentence for each heading. Does not own: which page has which number (the templates; a test looks).
"""

NUMBERS = {
    "brokers": "Brokers that the cluster names now.",
    "topics": "Topics that this console may see, internal ones among them.",
    "groups": "Groups of any type that have members, or offsets.",
    "transactional ids": "Names of transactional producers that the coordinators remember, running or not.",
    "open transactions": "Transactions that are neither committed nor aborted yet.",
    "decided, waiting for markers": "Transactions whose outcome is logged, and that lack the marker of a partition.",
    "number": "Counts the transactions that this console has begun.",
    "node": "The number of a broker, from its settings.",
    "partitions led": "Partitions whose reads and writes go to this broker.",
    "leads since then": "The node that leads, and its epoch: how often the leadership had been taken.",
    "seen before": "The node that led when this console looked before, and its epoch.",
    "level": "The version of the feature that the cluster uses.",
    "supported": "The lowest and the highest version that the brokers could use.",
    "partitions": "Those of a topic; of a transaction, those that it has written to.",
    "offsets held": "From the start of the log to its high watermark, over all partitions: records, markers, and what "
    "compaction has removed between them.",
    "behind open transactions": "Offsets that read_committed readers do not get yet: the high watermark less the last "
    "stable offset, over all partitions.",
    "leader": "The broker that reads and writes of the partition go to.",
    "replicas": "The brokers that hold the partition; in sync are those that have everything.",
    "log start offset": "The first offset that can still be read; retention and deletion move it.",
    "last stable offset": "Where read_committed readers stop: the first record of the oldest transaction without a "
    "marker, or the high watermark.",
    "high watermark": "Where all readers stop: everything before it is on all in-sync replicas.",
    "log end offset": "The offset that the next record gets.",
    "waits for transactions to end": "Offsets between the last stable offset and the high watermark.",
    "since offset": "The first record of the transaction in this partition.",
    "offset": "The place of a record in its partition. Markers have one too.",
    "producer": "The id of a producer, and after the colon its epoch: how often the id was taken over or, with "
    "transaction.version=2, how many transactions it has ended.",
    "producer id": "The number that the cluster gave the producer.",
    "epoch": "Raised to reject the producers of the id that came before.",
    "last sequence": "The number of the last record that the producer sent to this partition; by it duplicates are "
    "recognised.",
    "open since offset": "The first record of the producer's transaction that has no marker here yet.",
    "coordinator epoch": "How often the partition of the log of transactions had had a new leader, when the last "
    "marker was written.",
    "begun": "How long ago the transaction got its first partition.",
    "age, to its timeout": "How long the transaction is open, of the time after which its coordinator aborts it.",
    "age, to its timeout; or what is decided": "How long the transaction is open, of the time after which its "
    "coordinator aborts it.",
    "timeout": "The age at which the coordinator aborts an open transaction of this id.",
    "coordinator": "The broker that keeps the group, or the transactional id.",
    "lasted": "How long the transaction had been open at this step.",
    "lag": "Offsets from the group's committed one to the end of the partition, markers among them, as Kafka counts; "
    "of a share group those that are still to be delivered or acknowledged.",
    "pending offsets": "Offsets that an open transaction has sent for the group.",
    "pending": "The offset that the group will have if the transaction that sent it commits; above, how many.",
    "members": "Consumers in the group now.",
    "start offset": "The oldest record of the partition that the share group has neither acknowledged nor given up.",
    "in flight": "Offsets from the start offset to the last record that was handed out, done ones among them.",
    "acquired": "Records that a member holds: locked until it says what became of them, or the time is over.",
    "deliveries: records": "How many of the records that are acquired, or have come back, were delivered how often.",
    "done": "Records from the start offset on that are acknowledged, or not delivered again.",
    "released": "How often its member has given the record back.",
    "lost": "How often its lock ran out, or its member left without a word about it.",
    "rejected": "How often its member has said that it cannot be processed: it is not delivered again.",
    "group epoch": "Raised when members, or the partitions of their topics, change.",
    "assignment epoch": "The group epoch that the assignment was made for.",
    "topology epoch": "The version of the application's topology that the group uses.",
    "committed": "The offset from which the group's next member reads on.",
    "last stable": "The last stable offset of the partition: where read_committed readers stop.",
    "end": "The end of the partition for readers at read_uncommitted: its high watermark.",
}
