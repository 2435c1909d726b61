"""The public face of oncelog: `from oncelog import Producer, Consumer, Admin`.

Owns: the public names, and the check that the packages behind them are ours. `client` and `protocol` are common names:
a file of the user's own called client.py would otherwise be imported in their place and fail somewhere strange.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from client import (
        Admin,
        Consumer,
        ConsumerGroupMetadata,
        KafkaError,
        NewTopic,
        OffsetAndMetadata,
        Producer,
        Record,
        RecordMetadata,
        TopicPartition,
        Transaction,
    )

__all__ = [
    "Admin",
    "Consumer",
    "ConsumerGroupMetadata",
    "KafkaError",
    "NewTopic",
    "OffsetAndMetadata",
    "Producer",
    "Record",
    "RecordMetadata",
    "TopicPartition",
    "Transaction",
]

_HOME = Path(__file__).resolve().parent.parent


def __getattr__(name: str) -> Any:
    # On first use: `oncelog serve` needs none of them, and starts faster without.
    if name not in __all__:
        raise AttributeError(f"module 'oncelog' has no attribute {name!r}")
    return getattr(import_module("client"), name)


def _refuse_foreign_packages() -> None:
    for package in ("broker", "client", "protocol"):
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            continue
        found = Path(spec.origin).resolve()
        if found.parent != _HOME / package:
            raise ImportError(
                f"oncelog has a package named {package!r}, and Python finds {found} in its place: "
                "rename that file, or run from another folder"
            )


_refuse_foreign_packages()
