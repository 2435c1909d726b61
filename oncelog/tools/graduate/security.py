"""How Apache Kafka knows its clients as this broker did, and how it knows its own node.

Owns: which settings of TLS and SASL Kafka gets, those that it needs besides, and what stops it from starting with them.
Does not own: addresses and all other settings (`settings`).

Kafka's node is a client of itself: of its controller, and of the broker that it is. Where clients log in or rights are
asked for it has two listeners of its own, on which it alone logs in, by PLAIN, under a name and a password made for it.
Elsewhere it uses the listener of clients, as everybody.

Invariants
- No listener of clients is open to more of them than here, and each has the mechanisms that it has here.
- No one else has the node's name: it is a super user.
"""

import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from oncelog.broker.config.listeners import ListenerConfig, SecurityProtocol
from oncelog.broker.config.settings import BrokerConfig
from oncelog.tools.kafka_directory import NotPossible

_PACKAGE = "org.apache.kafka.common.security"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_ANYBODY = "User:ANONYMOUS"
_OAUTHBEARER = "OAUTHBEARER"
_OLD_KEY = re.compile(r"-----BEGIN (?:RSA|EC|DSA) PRIVATE KEY-----")
"""The first line of a key that Kafka does not read: it reads PKCS #8 alone."""
_LOCATIONS = ("ssl.keystore.location", "ssl.truststore.location")


def needs_own_listeners(config: BrokerConfig) -> bool:
    """Whether the node needs listeners besides those of clients."""
    is_super = _ANYBODY in config.get_str("super.users").split(";")
    has_rights = bool(config.get_str("authorizer.class.name"))
    return any(_is_secured(each) for each in config.listeners) or (has_rights and not is_super)


def _is_secured(listener: ListenerConfig) -> bool:
    return listener.protocol is not SecurityProtocol.PLAINTEXT


def node_settings(own_names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the node's principal, and the settings of its listeners, which have these names."""
    user, password = f"node-{secrets.token_hex(4)}", secrets.token_urlsafe(24)
    line = (
        f'{_PACKAGE}.plain.PlainLoginModule required username="{user}" password="{password}" user_{user}="{password}";'
    )
    settings = {"sasl.mechanism.inter.broker.protocol": "PLAIN", "sasl.mechanism.controller.protocol": "PLAIN"}
    for name in own_names:
        settings[f"listener.name.{name.lower()}.sasl.enabled.mechanisms"] = "PLAIN"
        settings[f"listener.name.{name.lower()}.plain.sasl.jaas.config"] = line
    return f"User:{user}", settings


def client_settings(config: BrokerConfig, given: Mapping[str, str], node: str | None) -> dict[str, str]:
    """Return the security settings that Kafka gets instead of the given ones or besides them; `node` is its principal,
    if it has one. Raises NotPossible."""
    settings: dict[str, str] = {}
    if config.get_str("authorizer.class.name"):
        settings["authorizer.class.name"] = _AUTHORIZER  # by its name of today
        settings["super.users"] = ";".join(filter(None, (config.get_str("super.users"), node)))
    if not any(map(_is_secured, config.listeners)):
        return settings
    for name, value in given.items():
        if name.endswith(_LOCATIONS) and value:
            settings[name] = str(Path(value).absolute())  # Kafka is started elsewhere
    for listener in config.listeners:
        if listener.protocol.has_tls:
            _check_tls(config, listener.name)
        if listener.protocol.has_sasl:
            settings |= _login_modules(config, listener.name)
    return settings


def _login_modules(config: BrokerConfig, listener: str) -> dict[str, str]:
    """Return a line of JAAS for each mechanism: Java wants one even where it says nothing."""
    prefix = f"listener.name.{listener.lower()}"
    settings = {}
    for mechanism in _mechanisms(config, listener):
        if mechanism.startswith("SCRAM-"):
            module = f"{_PACKAGE}.scram.ScramLoginModule"
        elif mechanism == _OAUTHBEARER:
            module = f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule"
            handler = f"{prefix}.oauthbearer.sasl.server.callback.handler.class"
            settings[handler] = f"{_PACKAGE}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        else:
            continue
        settings[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = f"{module} required;"
    return settings


def _mechanisms(config: BrokerConfig, listener: str) -> list[str]:
    text = config.get_of_listener(listener, "sasl.enabled.mechanisms")
    return [item.strip() for item in text.split(",") if item.strip()]


def by_hand(config: BrokerConfig) -> list[str]:
    """Return what no file of settings can say, as sentences."""
    urls = {
        config.get_of_mechanism(listener.name, _OAUTHBEARER, "sasl.oauthbearer.jwks.endpoint.url")
        for listener in config.listeners
        if listener.protocol.has_sasl and _OAUTHBEARER in _mechanisms(config, listener.name)
    }
    if not urls:
        return []
    option = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={','.join(sorted(urls))}"
    return [f"OAUTHBEARER: Kafka fetches keys only from addresses that its Java allows: set KAFKA_OPTS={option}"]


def _check_tls(config: BrokerConfig, listener: str) -> None:
    """Raise NotPossible for what works here and stops Kafka."""

    def read(key: str) -> str:
        return config.get_of_listener(listener, key)

    location = read("ssl.keystore.location")
    key = read("ssl.keystore.key")
    if not key and location and read("ssl.keystore.type").upper() == "PEM":
        try:
            key = Path(location).read_text("latin-1")
        except OSError as error:
            raise NotPossible(f"ssl.keystore.location={location}: {error.strerror or error}") from error
    if _OLD_KEY.search(key):
        raise NotPossible(
            f"the key of the listener {listener} is not in PKCS #8, the one form of PEM that Kafka reads: convert it "
            "with openssl pkcs8 -topk8 -nocrypt -in FILE -out KEY, and put KEY in its place"
        )
    suites = [item.strip() for item in read("ssl.cipher.suites").split(",") if item.strip()]
    strange = [item for item in suites if not item.startswith("TLS_")]
    if strange:
        raise NotPossible(f"ssl.cipher.suites has {strange[0]}, which is OpenSSL's name: Java wants IANA's, TLS_...")
