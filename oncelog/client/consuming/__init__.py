"""The consumer: fetching ahead, positions, commits, and the poll that brings them together.

Owns: `Consumer`, reads of ranges and of raw batches, and which records a reader of committed ones sees. Does not own:
membership of groups (`groups`), offset look-ups and connections (`wire`). Invariant: records of a partition are
returned in its order, each once, unless the program seeks.
"""
