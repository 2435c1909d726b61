"""The consumer: fetching ahead, positions, commits, and the poll that brings them together.

This room owns `Consumer`, reads of ranges and of raw batches, and the filter of a read_committed reader. It leaves
membership to `groups`, and offset look-ups and connections to `wire`. It returns the records of a partition in their
order, each once, unless the program seeks.
"""
