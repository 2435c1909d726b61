"""The producer: from a record to its outcome, with idempotence and transactions.

This room owns `Producer` and `Transaction`, the buffer and its batches, the requests that carry them, the producer's
identity, and the states of its transaction. It leaves connections and leaders to `wire`. It writes the batches of a
partition in the order of their sequence numbers, and each record has exactly one outcome.
"""
