"""The limits that the system puts on this process, as far as they can be lifted.

Owns: the number of open files. Invariant: nothing fails for want of it; what cannot be raised stays as it is.
"""

import contextlib
import resource


def raise_open_files() -> None:
    """As many open files as this process may have. The usual 1,024 are for programs that use select; the JVM raises
    them for Kafka in the same way."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
