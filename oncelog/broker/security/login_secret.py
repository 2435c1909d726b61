"""A random secret of the broker's store: what a broker says of users who do not exist is made of it.

Owns: its value, and when it is made: at the first start with logins. Does not own: what is made of it (`scram`).
Invariant: as long as the store lives it is the same, whatever users come and go: who asks for a name before and
after a change, or a restart, is told the same of one who does not exist.
"""

from oncelog.broker.log.store import LOGIN_SECRET, Blobs
from oncelog.broker.storage.disk_errors import is_transient
from oncelog.broker.turns.ports import Entropy

_SIZE_BYTES = 32


def login_secret(blobs: Blobs, entropy: Entropy) -> bytes:
    """On a disk that is full at the first start, one that ends with the process. Raises OSError."""
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
