"""A ledger to copy: purchases come in on a topic; balances, sessions and alerts go out on topics, and into a table.

```
purchases ─ checked ─┬─ accepted ─┬─ balances ─┬─ balances of customers     (transformWithState)
                     │            │            └─ alerts
                     │            ├─ sessions                               (session_window)
                     │            └─ a table of purchases
                     └─ rejected
```

`transforms.py` has the pure functions: DataFrame in, DataFrame out. Two programs run the same functions: `job.py`,
plain Structured Streaming, and `declarative/`, a Spark Declarative Pipeline. Invariant of every output, so that each
can be compared with an independent computation to the cent: it depends on which purchases there are, never on where a
batch ends or in which order partitions are read. So amounts are whole cents, a late purchase is known by its own two
times, and a balance never falls.
"""
