"""The topics that a topology names, in a request or in a response.

Owns: which fields name topics. Does not own: what follows (`handlers.streams_group_heartbeat`, rights).
"""

from collections.abc import Collection
from typing import Any


def named_topics(topology: Any) -> Collection[str]:
    """Return the name of every topic, each once; the topology may be None."""
    names: dict[str, None] = {}
    for subtopology in () if topology is None else topology.subtopologies or ():
        names.update(dict.fromkeys(subtopology.source_topics))
        names.update(dict.fromkeys(subtopology.repartition_sink_topics))
        names.update(dict.fromkeys(topic.name for topic in subtopology.repartition_source_topics))
        names.update(dict.fromkeys(topic.name for topic in subtopology.state_changelog_topics))
    return names
