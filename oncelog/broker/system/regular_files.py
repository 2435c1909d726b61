"""Opens a file only if it is one: a link, a FIFO, a socket, a device or a directory in its place is refused by name.

Owns: that check. Does not own: what is read, how a directory is held (`oncelog.tools.held_directory`). An open of a
FIFO would wait for a writer, and `/dev/zero` has no end; a link may lead to a file of another user, which root would
read, or overwrite, for the owner of the directory. So nothing that reads a directory of files opens one in another
way.
"""

import errno
import os
import stat

_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


def open_regular(path: str | os.PathLike[str], flags: int, mode: int = 0o600, *, directory: int | None = None) -> int:
    """Open a regular file as `os.open` does, also for `open(..., opener=open_regular)`. `directory` is a descriptor, as
    of `dir_fd`. Raises OSError, IsADirectoryError."""
    # O_NONBLOCK changes nothing for a regular file.
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, mode, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket, or a FIFO without a reader
            require_regular(path, os.stat(path, dir_fd=directory, follow_symlinks=False).st_mode)
        raise
    try:
        require_regular(path, os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def require_regular(path: str | os.PathLike[str], mode: int) -> None:
    """Raise OSError or IsADirectoryError unless `mode`, that of `os.lstat`, is of a regular file."""
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
    raise OSError(errno.ENXIO, f"{kind}, and no regular file", os.fspath(path))
