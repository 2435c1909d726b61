"""`make proof WHAT=postgres`: a broker whose records are in PostgreSQL, under real faults of both, counted.

Three clients (librdkafka's, Java's and ours) are processes that write transactions, copy what they have written in
further transactions together with their group's offsets, and follow it as a reader; each prints what it did and what it
was answered (`clients`). A part is one kind of fault (`parts`, `failovers`). Afterwards the topics are read at
read_committed and compared with what the clients were answered (`verdict`): what is lost, doubled, torn, was aborted
and is seen, or was seen and is gone.

Each part leaves a line of JSON in docs/operate/postgres-proof.jsonl, in the place of that of its last run; the page
beside it is written from that file and from nothing else (`page`).
"""
