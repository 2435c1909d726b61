"""Programs that write transactions, copy what they have written in further transactions together with their group's
offsets, and follow it as a reader: in several languages, one library each.

A program prints what it did and what it was answered (`lines`); `client` runs one and keeps the ledger of it.
"""
