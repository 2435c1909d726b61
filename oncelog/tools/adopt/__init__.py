"""`oncelog adopt`: a copy of an Apache Kafka broker's data becomes a data directory of ours.

The files of partitions are Kafka's in both directions (`oncelog.tools.graduate`). What differs is the metadata: the
topics, settings and producer ids of a whole cluster, which Kafka keeps in the log of its quorum, become the first
records of our own metadata log, as far as one node can have them.

One way that data flows: `oncelog.tools.kafka_directory` reads the directories, on which no Kafka
may run, and replays the quorum's log; `plan` decides for each partition, setting and file whether it goes along,
and reports that before anything is written; `adoption` makes the new directory and has our own recovery read every byte
of it.

Invariants
- Nothing below a KAFKA_DIR is written, renamed or deleted. A closed segment may get a second name, a hard link, and
  `broker.system.disk` copies a file with a second name before it writes to it.
- The new directory has its name only once our recovery has found every partition whole: whatever ends the command
  earlier leaves nothing behind, or a directory beside it that the next run removes.
"""
