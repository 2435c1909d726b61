"""Programs that can be interrupted, however the tests were started."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interruptible() -> Iterator[None]:
    """What is started in the block takes Ctrl-C: a shell starts what runs in the background with it ignored, and
    children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
