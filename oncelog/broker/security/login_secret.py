"""A random secret of the data directory: what a broker says of users who do not exist is made of it.

Owns: the file, and when it is made: at the first start with logins. Does not own: what is made of it (`scram`).
Invariant: as long as the directory lives it is the same, whatever users come and go: who asks for a name before and
after a change, or a restart, is told the same of one who does not exist.
"""

from oncelog.broker.ports import Disk, Entropy
from oncelog.broker.storage.disk_errors import is_transient
from oncelog.broker.storage.local.data_directory import LOGIN_SECRET

_SIZE_BYTES = 32


def login_secret(disk: Disk | None, entropy: Entropy) -> bytes:
    """Without files, or on a disk that is full at the first start, one that ends with the process. Raises OSError."""
    if disk is None:
        return _random(entropy)
    if disk.exists(LOGIN_SECRET):
        found = disk.read_bytes(LOGIN_SECRET)
        if len(found) == _SIZE_BYTES:
            return found
    made = _random(entropy)
    try:
        disk.write_atomically(LOGIN_SECRET, made)
    except OSError as error:
        if not is_transient(error):
            raise
    return made


def _random(entropy: Entropy) -> bytes:
    return entropy.uuid().bytes + entropy.uuid().bytes
