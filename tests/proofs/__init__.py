"""Proofs: a subject under real faults, counted, as a page. `make proof WHAT=postgres`, `outbox`, `spark`.

    runner    the command: runs parts of a subject, keeps what each finds, writes the page
    table     the file of results, a line of JSON for each part, and the tables of a page
    nemesis   a fault again and again: it is done, and ended after a while
    nodes     brokers over one schema, of which one leads
    clients   programs that write transactions in several languages, and the ledger of each

A subject (`postgres`, `outbox`, `spark`) is its world: what works in it, what can be done to it, and what is compared
in the end. Its `subject` says how the command runs it; its `page` is written from the file of results and nothing else.
"""
