"""The options of TLS and SASL, checked and resolved.

Owns: Kafka's names of them in snake_case, which combinations make sense, the TLS context. Does not own: the tokens of a
login (`sasl`, imported where one is configured), the connection (`transport`), what a wrong choice looks like from
here (`listeners`).

Invariants
- Certificates and the names in them are checked unless the program says otherwise.
- Files are read once, when the client is made: what is wrong with them is a ConfigError then.
- No secret is shown: by no repr, no error, no log line.

`SecuritySettings` is the one dataclass that others extend: every client has these options.
"""

import os
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal

from oncelog.client.values.errors import ConfigError

if TYPE_CHECKING:
    from oncelog.client.wire.sasl import Logins

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
"""Whether a connection is encrypted (SSL: by TLS), and whether it begins with a login (SASL)."""
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
"""How to log in: with a password, with a proof that one is known, with a token."""
ScramMechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
"""The mechanisms whose credentials a broker stores."""
EndpointIdentification = Literal["https", ""]
"""Whether the certificate must be for the host that was connected to."""
TokenProvider = Callable[[], str | Awaitable[str]]
"""Returns a token for OAUTHBEARER: `async def token() -> str`, or a plain function that does not wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    """The options of TLS and SASL with their defaults: those of every client."""

    security_protocol: SecurityProtocol = "PLAINTEXT"
    """PLAINTEXT, SSL (TLS), SASL_PLAINTEXT or SASL_SSL (TLS and a login): what the broker's listener speaks."""
    sasl_mechanism: SaslMechanism | None = None
    """How to log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."""
    sasl_username: str | None = None
    """The user of PLAIN and SCRAM."""
    sasl_password: str | None = field(default=None, repr=False)
    """The user's password."""
    sasl_tokenauth: bool = False
    """True if user and password are the id and the HMAC (in base64) of a delegation token, for SCRAM; Kafka's
    tokenauth="true"."""
    sasl_jaas_config: str | None = field(default=None, repr=False)
    """Kafka's line instead of user and password: `org...ScramLoginModule required username="..." password="...";`."""
    sasl_oauth_token_provider: TokenProvider | None = None
    """A function, async or not, that returns a token for OAUTHBEARER; called for each login."""
    sasl_oauth_extensions: Mapping[str, str] | None = None
    """More names and values for the broker with OAUTHBEARER, which some services ask for."""
    ssl_truststore_location: str | None = None
    """A PEM file with the certificates of the authorities to trust; None for those of this machine."""
    ssl_truststore_certificates: str | None = None
    """The certificates of the authorities to trust as text."""
    ssl_keystore_location: str | None = None
    """A PEM file with this client's private key and its certificate chain, where brokers ask for one."""
    ssl_key_password: str | None = field(default=None, repr=False)
    """The password of that key, if it has one."""
    ssl_endpoint_identification_algorithm: EndpointIdentification = "https"
    """'https': the broker's certificate must be for the host that is connected to; '' leaves that out."""
    ssl_context: ssl.SSLContext | None = None
    """A context of the program's own, instead of all other ssl_ options."""


@dataclass(frozen=True, slots=True)
class Security:
    """The security of a connection, resolved."""

    protocol: SecurityProtocol = "PLAINTEXT"
    context: ssl.SSLContext | None = None
    """The TLS context; None without TLS."""
    logins: "Logins | None" = None
    """The logins to make; None without a login."""


PLAINTEXT = Security()
"""The security protocol with neither TLS nor a login."""


def security_of(settings: SecuritySettings) -> Security:
    """Raises ConfigError for combinations that make no sense, and for files that cannot be used."""
    protocol = settings.security_protocol
    has_tls, has_login = protocol.endswith("SSL"), protocol.startswith("SASL")
    _refuse_unused(settings, "ssl_", has_tls, "SSL")
    _refuse_unused(settings, "sasl_", has_login, "SASL_SSL")
    return Security(protocol, _context(settings) if has_tls else None, _logins(settings) if has_login else None)


def _refuse_unused(settings: SecuritySettings, prefix: str, is_used: bool, instead: str) -> None:
    """Raise ConfigError for options without an effect: the connection would be less safe than it looks."""
    unused = [] if is_used else _set(settings, prefix)
    if unused:
        raise ConfigError(
            f"{unused[0]} has no meaning with security_protocol={settings.security_protocol!r}",
            hint=f"security_protocol={instead!r}",
        )


def _set(settings: SecuritySettings, prefix: str) -> list[str]:
    """Return the names of these options that the program has set."""
    mine = (each for each in fields(SecuritySettings) if each.name.startswith(prefix))
    return [each.name for each in mine if getattr(settings, each.name) != each.default]


# --- TLS --------------------------------------------------------------------------------------------------------------


def _context(settings: SecuritySettings) -> ssl.SSLContext:
    if settings.ssl_context is not None:
        others = [name for name in _set(settings, "ssl_") if name != "ssl_context"]
        if others:
            raise ConfigError(f"ssl_context and {others[0]} exclude each other: set it in the context")
        return settings.ssl_context
    location, certificates = settings.ssl_truststore_location, settings.ssl_truststore_certificates
    if location is not None and certificates is not None:
        raise ConfigError("ssl_truststore_location and ssl_truststore_certificates exclude each other")
    name = "ssl_truststore_certificates" if location is None else "ssl_truststore_location"
    try:
        if location is not None:
            _check_pem(name, location, "CERTIFICATE")
        context = ssl.create_default_context(cafile=location, cadata=certificates)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{name} has no certificates in PEM: {_reason(error)}", hint=_AS_PEM) from None
    if location is not None or certificates is not None:
        # As Java does, each of these is trusted, also where several have the same name. Python 3.13 does so by itself.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # A Python may leave it to the system's OpenSSL, as Debian's does.
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    context.check_hostname = settings.ssl_endpoint_identification_algorithm == "https"
    if settings.ssl_keystore_location is not None:
        _load_key(context, settings.ssl_keystore_location, settings.ssl_key_password)
    elif settings.ssl_key_password is not None:
        raise ConfigError("ssl_key_password needs ssl_keystore_location")
    return context


def _load_key(context: ssl.SSLContext, location: str, password: str | None) -> None:
    _check_pem("ssl_keystore_location", location, "PRIVATE KEY", "CERTIFICATE")
    try:
        # Without a password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(location, password=password or "")
    except (OSError, ValueError) as error:
        hint = "ssl_key_password must be the key's; the key must be that of the first certificate in the file"
        raise ConfigError(f"ssl_keystore_location={location!r} cannot be used: {_reason(error)}", hint=hint) from None


_JKS, _PKCS12 = b"\xfe\xed\xfe\xed", b"\x30\x82"
_AS_PEM = (
    "keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12, "
    "then openssl pkcs12 -in FILE.p12 -out FILE.pem"
)


def _check_pem(name: str, location: str, *labels: str) -> None:
    """Raise ConfigError for a file that is no PEM or lacks a part: OpenSSL's own words for that are "[SSL] PEM lib"."""
    try:
        with open(location, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ConfigError(f"{name}={location!r}: {_reason(error)}") from None
    if data.startswith((_JKS, _PKCS12)):
        kind = "JKS" if data.startswith(_JKS) else "PKCS12"
        raise ConfigError(f"{name}={location!r} is a {kind} store, and must be a PEM file", hint=_AS_PEM)
    for label in labels:
        if re.search(rb"-----BEGIN [A-Z ]*%b-----" % label.encode(), data) is None:
            raise ConfigError(f"{name}={location!r} has no {label} in PEM", hint=_AS_PEM)


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).lower().replace("_", " ")
    number = getattr(error, "errno", None)
    return os.strerror(number).lower() if number else str(error)


# --- SASL -------------------------------------------------------------------------------------------------------------


def _logins(settings: SecuritySettings) -> "Logins":
    from oncelog.client.wire.sasl import PasswordLogins, TokenLogins

    mechanism = settings.sasl_mechanism
    if mechanism is None:
        raise ConfigError(f"security_protocol={settings.security_protocol!r} needs sasl_mechanism")
    if mechanism == "OAUTHBEARER":
        if settings.sasl_oauth_token_provider is None:
            raise ConfigError("OAUTHBEARER needs sasl_oauth_token_provider, a function that returns a token")
        return TokenLogins(settings.sasl_oauth_token_provider, settings.sasl_oauth_extensions or {})
    username, password, is_token = settings.sasl_username, settings.sasl_password, settings.sasl_tokenauth
    if settings.sasl_jaas_config is not None:
        if username is not None or password is not None or is_token:
            raise ConfigError("sasl_jaas_config excludes sasl_username, sasl_password and sasl_tokenauth")
        username, password, is_token = _jaas(settings.sasl_jaas_config, mechanism)
    return PasswordLogins(mechanism, username or "", password or "", is_token=is_token)


_JAAS_VALUE = r"""(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))"""
_JAAS_PAIR = re.compile(rf"\s+(\w+)\s*=\s*{_JAAS_VALUE}")
_JAAS = re.compile(rf"\s*([\w.$]+)\s+required((?:{_JAAS_PAIR.pattern})*)\s*;\s*")
_MODULES = {"PLAIN": "PlainLoginModule", "SCRAM-SHA-256": "ScramLoginModule", "SCRAM-SHA-512": "ScramLoginModule"}


def _jaas(line: str, mechanism: str) -> tuple[str, str, bool]:
    """Return user, password, and whether they are a token's. Raises ConfigError, which does not show the line."""
    module = _MODULES[mechanism]
    values = jaas_values(line, mechanism, module, f'{module} required username="..." password="...";')
    return values.get("username", ""), values.get("password", ""), values.get("tokenauth", "").lower() == "true"


def jaas_values(line: str, mechanism: str, module: str, example: str) -> dict[str, str]:
    """Return what an entry of sasl_jaas_config says. Raises ConfigError, which does not show the line."""
    found = _JAAS.fullmatch(line)
    if found is None or found[1].rpartition(".")[2] != module:
        raise ConfigError(
            f"sasl_jaas_config: {mechanism} needs one entry of {module}",
            hint=f"org.apache.kafka.common.security...{example}",
        )
    return {
        name: re.sub(r"\\(.)", r"\1", double or single or plain)
        for name, double, single, plain in _JAAS_PAIR.findall(found[2])
    }
