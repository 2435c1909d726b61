"""Our broker at the levels that Kafka was formatted with."""

from collections.abc import Sequence

from oncelog.broker.cluster.features import FEATURES
from tests.fakes.broker import VirtualBroker


def at_levels(broker: VirtualBroker, levels: Sequence[str]) -> VirtualBroker:
    """The broker with these levels, such as "share.version=0", of the features that it has."""
    named = (text.partition("=") for text in levels)
    broker.broker.metadata.set_features({name: int(level) for name, _, level in named if name in FEATURES})
    broker.time.settle()
    return broker
