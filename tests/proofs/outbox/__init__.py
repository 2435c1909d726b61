"""`make proof WHAT=outbox`: relays of `oncelog outbox` under kill -9, and what became of each event, as a table.

Writers commit some 300 SQL transactions a second, and keep in the same transaction what they published (`ledger`). A
relay is a process (`relays`). A part is one kind of fault on one carrier (`parts`, `failovers`); afterwards the topics
are read at read_committed and compared with what the database has committed (`world`): what is missing, doubled, out
of order, or was rolled back. Two relays that people write themselves go through the same kills (`naive_poller`,
`at_least_once`).

`page` is the last section of docs/operate/outbox.md, written from the file of results alone. `numbers` measures.
"""
