"""A random secret of the broker's store, from which the salts of unknown users are derived.

Owns: its value, and when it is made: at the first start with logins. Does not own: what is made of it (`scram`).
Invariant: it is the same as long as the store lives. So the salt of an unknown user never changes, neither with other
users nor at a restart, and reveals nothing.
"""

from oncelog.broker.log.store import LOGIN_SECRET, Blobs
from oncelog.broker.storage.disk_errors import is_transient
from oncelog.broker.turns.ports import Entropy

_SIZE_BYTES = 32


def login_secret(blobs: Blobs, entropy: Entropy) -> bytes:
    """Return the stored secret, made if there is none; if the disk is full at the first start, one for this process
    only. Raises OSError."""
    if blobs.exists(LOGIN_SECRET):
        found = blobs.read_bytes(LOGIN_SECRET)
        if len(found) == _SIZE_BYTES:
            return found
    made = _random(entropy)
    try:
        blobs.write_atomically(LOGIN_SECRET, made)
    except OSError as error:
        if not is_transient(error):
            raise
    return made


def _random(entropy: Entropy) -> bytes:
    return entropy.uuid().bytes + entropy.uuid().bytes
