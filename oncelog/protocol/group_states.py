"""The states and types of groups, as Kafka's GroupState and GroupType name them: for everything that filters by them.

Does not own: transitions (`broker.coordinator.group.classic.states`).
"""

from typing import Final

GROUP_STATES: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
    "NotReady",
)
GROUP_TYPES: Final = ("classic", "consumer", "share", "streams")
