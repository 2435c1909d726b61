"""A Fetch, from the session that has its partitions to its response.

**Types.** A `FetchSession` (`session`) has `FetchedPartition`s: the client's last request and response for each, and
which of them are `ready`, that is, to be read. The `FetchSessionCache` (`session_cache`) keeps sessions between
requests. A `Fetch` (`fetch`) is one request. Its `AvailableBytes` (`available_bytes`) say whether it waits, its
`FetchAnswer` (`answer`) is made by reading one partition after another (`partition`), and its state is one of
`states`, where all transitions stand in a table. The `FetchPurgatory` (`purgatory`) notifies partitions of their
logs.

**Sources of truth.** What can be read: the log. What the client knows, and what is new to it: the session. Which
sessions there are: the cache. What happens next to a request: its state.

**One data flow.**

    handler ──▶ session ──▶ Fetch ──▶ available bytes ──▶ answer ──▶ response
                                          ▲      │ too few
                         log ──▶ purgatory┴──────┘

Handlers know this room and it knows none of them: what it needs of a request and its broker is in `ports`.
"""
