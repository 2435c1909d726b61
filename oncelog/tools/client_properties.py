"""A properties file of Kafka's clients, as `--command-config` takes it, as options of our client.

Owns: which of its names are about security, and their form here. Does not own: what they mean (`client.security`).
Invariants: everything else in the file is left alone, as by Kafka's own scripts; nothing about security is ignored.

The environment and profiles have the client's own names, `sasl_password` for `sasl.password`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ssl import SSLContext

    from oncelog.client.security import SecurityOptions

PREFIXES = ("security_", "sasl_", "ssl_")
TOKEN = "sasl_oauth_token"
"""The one option that only commands have, instead of a function that gets a token: a token."""
_TOKENAUTH, _FLAGS = "sasl_tokenauth", {"true": True, "false": False}
_PEM_TYPES = ("ssl_keystore_type", "ssl_truststore_type")


class ClientPropertiesError(Exception):
    """The file cannot be read; the message names it."""


def read_client_properties(path: str) -> "SecurityOptions":
    """What the file says of security. Raises ClientPropertiesError."""
    from oncelog.broker.config.properties import PropertiesError, parse_properties

    try:
        with open(path, encoding="utf-8") as file:
            pairs = parse_properties(file.read())
    except (OSError, ValueError) as error:
        raise ClientPropertiesError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    except PropertiesError as error:
        raise ClientPropertiesError(f"{path}: {error}") from error
    return named_options({name.replace(".", "_"): value for name, value in pairs.items()})


def named_options(values: Mapping[str, Any]) -> "SecurityOptions":
    """Those that are about security, as keyword arguments. The client refuses what it does not know."""
    found = {name: value for name, value in values.items() if name.startswith(PREFIXES)}
    for name in _PEM_TYPES:
        if found.get(name) == "PEM":
            del found[name]
    if str(found.get(_TOKENAUTH)).lower() in _FLAGS:  # the environment has nothing but text
        found[_TOKENAUTH] = _FLAGS[str(found[_TOKENAUTH]).lower()]
    if TOKEN in found:
        token = found.pop(TOKEN)
        found["sasl_oauth_token_provider"] = lambda: token
    return cast("SecurityOptions", found)


def tls_context(options: "SecurityOptions") -> "SSLContext | None":
    """For connections that no client makes. Raises the client's ConfigError."""
    if not options:
        return None
    from oncelog.client.admin_settings import AdminSettings
    from oncelog.client.security import security_of

    return security_of(AdminSettings(**options)).context
