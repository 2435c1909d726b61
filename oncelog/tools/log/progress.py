"""The bar that long work has on a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from oncelog.tools.terminal import marked

_WORTH_A_BAR_BYTES = 32 * 1024 * 1024


@contextmanager
def progress_bar(title: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Yield what is called with the bytes that are done. Short work, and a pipe, get no bar."""
    if total_bytes < _WORTH_A_BAR_BYTES or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True))
    with Progress(*columns, console=Console(stderr=True, emoji=False), transient=True) as bar:
        task = bar.add_task(marked(title), total=total_bytes)
        yield lambda done_bytes: bar.update(task, completed=done_bytes)
