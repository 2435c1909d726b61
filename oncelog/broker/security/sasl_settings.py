"""The SASL of one listener: from its settings to the mechanisms that are enabled there.

Owns: what the settings of `sasl.*` mean. Does not own: logins (`broker.security.authentication`), users of SCRAM, which
are in the metadata log. Invariant: a listener has a mechanism with all it needs, or does not open: SaslError names the
setting and what to write.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oncelog.broker.config.settings import BrokerConfig
from oncelog.broker.security.jaas import parse_jaas
from oncelog.broker.security.mechanisms import OAUTHBEARER, PLAIN, Mechanism
from oncelog.broker.security.plain import Plain
from oncelog.broker.security.scram import SCRAM_MECHANISMS, Scram, ScramUsers
from oncelog.broker.turns.ports import Clock, Scheduler

_PLAIN_EXAMPLE = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'


class SaslError(Exception):
    """Raised if the settings of SASL are not usable; the message names one of them and what to write."""


@dataclass(frozen=True, slots=True)
class SaslSettings:
    mechanisms: Mapping[str, Mechanism]
    """The mechanisms by name, in the order of `sasl.enabled.mechanisms`."""
    max_session_ms: Mapping[str, int]
    """The longest session by the name of the mechanism; 0 for no end."""


@dataclass(frozen=True, slots=True)
class SaslParts:
    """The parts that mechanisms need besides settings."""

    users: ScramUsers
    clock: Clock
    scheduler: Scheduler
    log: Any


def read_sasl_settings(config: BrokerConfig, listener_name: str, parts: SaslParts) -> SaslSettings:
    """Raises SaslError."""
    text = config.get_of_listener(listener_name, "sasl.enabled.mechanisms")
    names = [item.strip() for item in text.split(",") if item.strip()]
    mechanisms = {name: _mechanism(config, listener_name, name, parts) for name in names}
    if not mechanisms:
        raise SaslError("sasl.enabled.mechanisms is empty: write sasl.enabled.mechanisms=SCRAM-SHA-512")
    sessions = {
        name: int(config.get_of_mechanism(listener_name, name, "connections.max.reauth.ms")) for name in mechanisms
    }
    return SaslSettings(mechanisms, sessions)


def _mechanism(config: BrokerConfig, listener_name: str, name: str, parts: SaslParts) -> Mechanism:
    if name == PLAIN:
        return Plain(_passwords(config, listener_name))
    if name in SCRAM_MECHANISMS:
        return Scram(SCRAM_MECHANISMS[name], parts.users)
    if name == OAUTHBEARER:
        return _oauthbearer(config, listener_name, parts)
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


def _oauthbearer(config: BrokerConfig, listener_name: str, parts: SaslParts) -> Mechanism:
    try:
        from oncelog.broker.security.jwks import Jwks
        from oncelog.broker.security.jwks_source import fetch_from
        from oncelog.broker.security.oauthbearer import OAuthBearer, TokenRules
    except ImportError as error:
        from oncelog.installing import how_to_install

        raise SaslError(f"OAUTHBEARER needs another package: {how_to_install('security')} ({error})") from error

    def read(key: str) -> str:
        return config.get_of_mechanism(listener_name, OAUTHBEARER, key)

    url = read("sasl.oauthbearer.jwks.endpoint.url")
    try:
        fetch = fetch_from(url)
    except ValueError as error:
        raise SaslError(f"sasl.oauthbearer.jwks.endpoint.url is {url!r}: {error}") from error
    rules = TokenRules(
        audience=[item.strip() for item in read("sasl.oauthbearer.expected.audience").split(",") if item.strip()],
        issuer=read("sasl.oauthbearer.expected.issuer"),
        skew_s=int(read("sasl.oauthbearer.clock.skew.seconds")),
        user_claim=read("sasl.oauthbearer.sub.claim.name"),
    )
    refresh_ms = int(read("sasl.oauthbearer.jwks.endpoint.refresh.ms"))
    return OAuthBearer(rules, Jwks(fetch, refresh_ms, parts.clock, parts.scheduler, parts.log), parts.clock)
