"""A real broker for tests: the fixture `oncelog_broker` of pytest, and the same as a context manager.

    from oncelog.testing import Broker

    with Broker() as broker:
        run_my_service(broker.bootstrap_servers)
        assert broker.records("invoices") == ...

Owns: the public names for tests. Installing oncelog registers the fixtures (`pytest_oncelog`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncelog.testing.broker import Broker
    from oncelog.testing.kafka_container import KafkaContainer
else:

    def __getattr__(name: str) -> Any:
        # On first use: the other modules here are imported without the broker, too.
        if name not in _MODULES:
            raise AttributeError(f"module 'oncelog.testing' has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)


_MODULES = {"Broker": "oncelog.testing.broker", "KafkaContainer": "oncelog.testing.kafka_container"}

__all__ = ["Broker", "KafkaContainer"]
