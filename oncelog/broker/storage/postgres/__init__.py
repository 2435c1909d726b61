"""The tables of `storage.shared` in PostgreSQL, over asyncpg.

Safety does not depend on any clock or connection: the statement that writes reads the epoch of the lease with a lock
that a take-over waits for, and so finds another epoch or is committed before it.
"""
