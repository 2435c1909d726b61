"""The transaction coordinator: decides how each transaction ends, and brings its outcome to every partition.

**States.** Each transactional id has one `TransactionMetadata` (`metadata`): its producer id and epoch, the partitions
of its open transaction, and a state of the table in `states`:

    Empty ──▶ Ongoing ──▶ PrepareCommit ──▶ CompleteCommit      and from either Complete state to the next Ongoing
                     └──▶ PrepareAbort  ──▶ CompleteAbort

**Who decides.** Pure functions (`begin_decisions`, `end_decisions`): from the metadata and a request they return an
error or the next metadata, and change nothing. `coordinator` calls them for requests and timeouts, and checks each new
value against the previous one (`check_step`) before it is logged.

**What is logged.** The next metadata, as one record of `__transaction_state` (`records`), in the turn of the decision.
Replaying that record is the only way a shard (`shard`) changes, so a restart rebuilds the same state. The response
is sent once the record is durable. Until then, and from PREPARE until COMPLETE is durable, the id is pending and
requests get CONCURRENT_TRANSACTIONS.

**How a marker travels.** Once PREPARE is durable, the outcome is fixed:

    PREPARE logged ──▶ `marker_delivery` ──▶ `markers.MarkerSender` ──▶ partition leader appends the marker
    COMPLETE logged ◀── each partition has its marker, is deleted, or has fenced this coordinator ◀─┘

Appends become durable in their order, and what one turn appends becomes durable as a whole. So with all partitions on
this node the whole way is one turn. A marker that cannot be appended then (another node leads the partition, its disk
is full, a fault rule watches) is sent once PREPARE is durable, and again until no partition is left. A commit, an
abort, a timeout, a new instance that fences the old one, and a restart that finds PREPARE in the log all take this
path; an outcome is never inferred from a missing marker.

**Who owns what.** A `TransactionShardLife` (`shard_life`) exists while this node coordinates the partition. It owns
what may be lost with it: pending transitions, timers (`timeouts`), markers in flight. `producer_ids` allocates ids from
durable blocks. `docs/understand/transactions.md` is the user's view, with what a crash leaves at each step.
"""
