"""The producer: from a record to its outcome, with idempotence and transactions.

Owns: `Producer` and `Transaction`, the buffer and its batches, which request carries them, the producer's identity, and
the states of its transaction. Does not own: connections and leaders (`wire`). Invariants: the batches of a partition
are written in the order of their sequence numbers, and each record has exactly one outcome.
"""
