"""The assignors by name, as `group.consumer.assignors` names them."""

from collections.abc import Mapping

from oncelog.broker.coordinator.group.assignors import range as by_range
from oncelog.broker.coordinator.group.assignors import uniform
from oncelog.broker.coordinator.group.assignors.subscriber import Assignor

ASSIGNORS: Mapping[str, Assignor] = {"uniform": uniform.assign, "range": by_range.assign}
