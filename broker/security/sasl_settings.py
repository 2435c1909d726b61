"""The SASL of one listener: from its settings to the mechanisms that are enabled there.

Owns: what the settings of `sasl.*` mean. Does not own: logins (`broker.security.authentication`), users of SCRAM, which
are in the metadata log. Invariant: a listener has a mechanism with all it needs, or does not open: SaslError names the
setting and what to write.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from oncelog.broker.config.settings import BrokerConfig
from oncelog.broker.security.jaas import parse_jaas
from oncelog.broker.security.mechanisms import PLAIN, Mechanism
from oncelog.broker.security.plain import Plain
from oncelog.broker.security.scram import SCRAM_MECHANISMS, Scram, ScramUsers

_PLAIN_EXAMPLE = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'


class SaslError(Exception):
    """The settings of SASL are not usable; the message names one of them and what to write."""


@dataclass(frozen=True, slots=True)
class SaslSettings:
    mechanisms: Mapping[str, Mechanism]
    """By name, in the order of `sasl.enabled.mechanisms`."""
    max_session_ms: Mapping[str, int]
    """By the name of the mechanism; 0: no end."""


def read_sasl_settings(config: BrokerConfig, listener_name: str, users: ScramUsers) -> SaslSettings:
    """Raises SaslError."""
    text = config.get_of_listener(listener_name, "sasl.enabled.mechanisms")
    names = [item.strip() for item in text.split(",") if item.strip()]
    mechanisms = {name: _mechanism(config, listener_name, name, users) for name in names}
    if not mechanisms:
        raise SaslError("sasl.enabled.mechanisms is empty: write sasl.enabled.mechanisms=SCRAM-SHA-512")
    sessions = {
        name: int(config.get_of_mechanism(listener_name, name, "connections.max.reauth.ms")) for name in mechanisms
    }
    return SaslSettings(mechanisms, sessions)


def _mechanism(config: BrokerConfig, listener_name: str, name: str, users: ScramUsers) -> Mechanism:
    if name == PLAIN:
        return Plain(_passwords(config, listener_name))
    if name in SCRAM_MECHANISMS:
        return Scram(SCRAM_MECHANISMS[name], users)
    raise SaslError(
        f"sasl.enabled.mechanisms has {name}, which is not supported: write sasl.enabled.mechanisms=SCRAM-SHA-512"
    )


def _passwords(config: BrokerConfig, listener_name: str) -> dict[str, str]:
    key = f"listener.name.{listener_name.lower()}.plain.sasl.jaas.config"
    line = config.get_only_of_listener(listener_name, "plain.sasl.jaas.config")
    if line is None:
        raise SaslError(f"PLAIN has no users: write {key}={_PLAIN_EXAMPLE}")
    try:
        passwords = parse_jaas(line).passwords
    except ValueError as error:
        raise SaslError(f"{key}: {error}; it is of the form {_PLAIN_EXAMPLE}") from None
    if not passwords or "" in passwords:
        raise SaslError(f'{key} names no user, or one without a name: write user_NAME="PASSWORD" for each')
    return passwords
