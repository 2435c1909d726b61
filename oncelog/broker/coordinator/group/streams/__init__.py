"""Streams groups (KIP-1071): the broker assigns the tasks of a Kafka Streams application, and makes its topics.

A streams group is like a consumer group (`group.consumer`) with two differences. What its members read is one
*topology* for all of them: subtopologies, each with source topics, repartition topics and changelogs. And what they are
assigned are *tasks*: partition n of a subtopology, which stands for partition n of each topic that it reads. A task has
one active member, and may have standby members that only keep its state up to date.

- `topology`: what the application is, as its members describe it.
- `internal_topics`: how many partitions each of its topics needs, which are missing, and why it cannot run yet.
- `tasks`, `member`, `group`: the state that the records (`records`) add up to.
- `assignor`, `reconciliation`: the target assignment, and a member's next step towards it.
- `heartbeat`, `update`, `coordinator`: what a heartbeat may say, what follows from it, and the order of the checks.
"""
