"""What an OSError of the disk means: whether it is transient, and what an operator can do about it."""

import errno

_NO_DESCRIPTOR_ERRORS = frozenset({errno.EMFILE, errno.ENFILE})
# No space or no descriptor: nothing was written, and the client may retry.
_TRANSIENT_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG}) | _NO_DESCRIPTOR_ERRORS


def is_transient(error: Exception) -> bool:
    """Whether a retry may succeed; after any other failed write the disk cannot be trusted."""
    return isinstance(error, OSError) and error.errno in _TRANSIENT_ERRORS


def lacks_descriptor(error: Exception | None) -> bool:
    """The process or the system has too many open files: the file was neither changed nor synced."""
    return isinstance(error, OSError) and error.errno in _NO_DESCRIPTOR_ERRORS


def trouble(error: OSError) -> str:
    """The error with its file, and what an operator can do about it."""
    if is_transient(error):
        return f"{error}: free disk space or file descriptors, and start again"
    if isinstance(error, PermissionError):
        return f"{error}: give the broker's user read and write permission, and start again"
    if isinstance(error, IsADirectoryError | NotADirectoryError) or error.errno == errno.ENXIO:
        return f"{error}: restore the file, or move away what is in its place, and start again"
    return f"{error}: check the disk; `oncelog log repair` recovers what is still readable"
