"""All partitions of a cluster in tables that other machines reach, too: a LogStore for the one broker with the lease.

What there is
- The *journal* (`tables.AppendRound`): one row a round of group commit, numbered without gaps. Its body is the sections
  of all logs (`storage.sections`). It is the only thing that a Produce waits for. It has two halves: while a checkpoint
  moves what one holds and empties it, the other grows.
- *Chunks*: up to a megabyte of adjacent batches of one segment, never changed, under an id that is never used again.
  Compaction puts others in their place, small ones become one (`aside`, `joining`), retention drops them.
- The *catalogue*: for each log how far its chunks reach, with the producers and epochs at that very offset; where each
  log starts; small values (`log.store.Blobs`).
- The *lease*: the epoch of the broker that may write. Every statement that writes compares it itself, so a broker that
  slept past its lease changes nothing, whatever it believes.

Who owns the truth
- Of what is committed: the tables, and only they. What is in memory above the last committed round is a wish.
- Of the order of rounds and offsets: the broker with the lease, in memory (`log.partition_log`); no other one appends.
- Of whether a round is committed, if its answer is lost: the row with its number. It is asked for before anything is
  acknowledged or failed (`statements`).

The one way that data flows: a batch is appended to the *tail* of its log in memory (`log`) and collected for the next
round; the round becomes a row (`store`); a *checkpoint* copies the tails that are committed into chunks, writes the
catalogue and trims the journal in one transaction (`checkpoint`); from then on readers fetch the chunk through a cache
with a bound (`chunks`). A start reads the catalogue and the journal above it, and no chunk (`opening`).

Nothing is answered ahead of its round: a successor could not know of it, and would fence producers that did no wrong.
"""
