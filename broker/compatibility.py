"""Where the protocol allows more than Apache Kafka does: which of the two this broker does (`oncelog.compat`).

Owns: every such difference, on this one page, with its reason. Does not own: what each comes to, which is where the
field is read. Nothing else asks for the setting. docs/compatibility.md tells the same to users.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Compatibility:
    keeps_last_epoch: bool
    """Is the epoch before a bump logged? Kafka's records have no room for it: there a restart between the answer to
    InitProducerId and its retry fences the producer (KIP-360)."""
    retries_classic_ends: bool
    """Is EndTxn 5 by a replaced instance answered as a retry of the end that its successor made by an older version?
    Kafka gives it the pair of its successor, and both go on with one pair (KIP-890)."""
    keeps_prepared: bool
    """May an instance take over what its predecessor has prepared? Kafka 4.3 knows the request alone (KIP-939)."""
    lists_two_phase_commit: bool
    """Are unstable versions listed and served as soon as two-phase commit, which needs one, is switched on? Kafka takes
    a setting of its own for that."""
    aborts_in_time: bool
    """Is a transaction aborted just when its timeout is over? Kafka looks every
    `transaction.abort.timed.out.transaction.cleanup.interval.ms`."""
    guards_open_transactions: bool
    """Is `__transaction_state` kept from being deleted while a transaction is open? In Kafka what was open hangs then,
    until an operator ends it."""
    remembers_batches: bool
    """Are five batches of each producer known for their retries over a clean stop too? Kafka's snapshots hold one."""


OURS = Compatibility(
    keeps_last_epoch=True,
    retries_classic_ends=False,
    keeps_prepared=True,
    lists_two_phase_commit=True,
    aborts_in_time=True,
    guards_open_transactions=True,
    remembers_batches=True,
)

KAFKA = Compatibility(
    keeps_last_epoch=False,
    retries_classic_ends=True,
    keeps_prepared=False,
    lists_two_phase_commit=False,
    aborts_in_time=False,
    guards_open_transactions=False,
    remembers_batches=False,
)

COMPATIBILITIES: Mapping[str, Compatibility] = MappingProxyType({"oncelog": OURS, "kafka": KAFKA})
"""By the values of `oncelog.compat`."""
