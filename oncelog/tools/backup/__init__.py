"""`oncelog backup` and `oncelog restore`: a data directory as of one instant, copied while its broker runs, and back.

A backup is a data directory, with a file of checksums that `sha256sum -c` reads, too. What is in it and why it is
consistent, the broker decides (`broker.storage.local.image`); here it is copied, and checked when it is brought back.
"""
