"""What an OSError of the disk means: whether it may pass, and what a person can do about it."""

import errno

_NO_DESCRIPTOR_ERRORS = frozenset({errno.EMFILE, errno.ENFILE})
# No room, or no descriptor: nothing was written, and the client may retry once there is.
_TRANSIENT_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG}) | _NO_DESCRIPTOR_ERRORS


def is_transient(error: Exception) -> bool:
    """The disk is as good as before and may do better later; after any other failed write it cannot be trusted."""
    return isinstance(error, OSError) and error.errno in _TRANSIENT_ERRORS


def lacks_descriptor(error: Exception | None) -> bool:
    """The process or the system has too many open files: the file was not touched, not even by a sync."""
    return isinstance(error, OSError) and error.errno in _NO_DESCRIPTOR_ERRORS


def trouble(error: OSError) -> str:
    """What went wrong with which file, and what a person can do about it."""
    if is_transient(error):
        return f"{error}: free some room, or file descriptors, and start again"
    if isinstance(error, PermissionError):
        return f"{error}: let the broker's user read and write it, and start again"
    if isinstance(error, IsADirectoryError | NotADirectoryError):
        return f"{error}: put the file back, or take away what stands in its place, and start again"
    return f"{error}: look after the disk; `oncelog log repair` goes round what it cannot give"
