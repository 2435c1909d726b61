"""Every broker setting that has an effect here: name, type, default, bounds, and one line on what it does.

Owns: the tables together, each a module by its subject, and names with the prefix of a listener. Does not own: the
sources of values (`broker.config.settings`), topic settings (`broker.config.topic_config`), names that Kafka knows and
one node does not need (`broker.config.kafka_names`).
Invariants
- Names, types, bounds and defaults are those of Apache Kafka 4.3, except where the text says "here".
- Only keys that some part of the broker reads are listed; a test checks this.
"""

from oncelog.broker.config.config_key import ConfigKey
from oncelog.broker.config.coordinator_keys import COORDINATOR_KEYS
from oncelog.broker.config.log_keys import LOG_KEYS
from oncelog.broker.config.network_keys import NETWORK_KEYS
from oncelog.broker.config.oncelog_keys import ONCELOG_KEYS
from oncelog.broker.config.security_keys import SECURITY_KEYS

BROKER_KEYS = {key.name: key for key in (*NETWORK_KEYS, *SECURITY_KEYS, *LOG_KEYS, *COORDINATOR_KEYS, *ONCELOG_KEYS)}

_LISTENER_PREFIX = "listener.name."
_LISTENER_FAMILIES = ("ssl.", "sasl.", "max.connections", "max.connection.creation.rate", "connections.max.reauth.ms")
_MECHANISM_FAMILIES = ("sasl.", "connections.max.reauth.ms")
_MECHANISMS = ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer")


def key_of_listener(name: str) -> ConfigKey | None:
    """The key in `listener.name.LISTENER.KEY` or `listener.name.LISTENER.MECHANISM.KEY`, all but the key in lower case
    as Kafka writes it there. None for a name without the prefix, and for a key that cannot be set so."""
    if not name.startswith(_LISTENER_PREFIX):
        return None
    rest = name.removeprefix(_LISTENER_PREFIX)
    dot = rest.find(".")
    while dot > 0:  # names of listeners may contain dots, too
        key = BROKER_KEYS.get(rest[dot + 1 :])
        if key is not None:
            is_of_mechanism = rest[:dot].rpartition(".")[2] in _MECHANISMS
            return key if key.name.startswith(_MECHANISM_FAMILIES if is_of_mechanism else _LISTENER_FAMILIES) else None
        dot = rest.find(".", dot + 1)
    return None
