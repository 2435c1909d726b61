"""Opens a file only if it is one: a FIFO, a socket, a device or a directory in its place is refused by name.

Owns: that check. Does not own: what is read. An open of a FIFO would wait for a writer, and `/dev/zero`
has no end; so nothing that reads a directory of files opens one in another way.
"""

import errno
import os
import stat

_KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


def open_regular(path: str | os.PathLike[str], flags: int, mode: int = 0o600) -> int:
    """Open a regular file as `os.open` does, also for `open(..., opener=open_regular)`. Raises OSError,
    IsADirectoryError."""
    try:
        # O_NONBLOCK changes nothing for a regular file.
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket, or a FIFO without a reader
            require_regular(path, os.stat(path).st_mode)
        raise
    try:
        require_regular(path, os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def require_regular(path: str | os.PathLike[str], mode: int) -> None:
    """Raise OSError or IsADirectoryError unless `mode`, that of `os.stat`, is of a regular file."""
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
    raise OSError(errno.ENXIO, f"{kind}, and no regular file", os.fspath(path))
