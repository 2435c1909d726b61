"""A properties file of Kafka's clients, as `--command-config` takes it, as options of our client.

Owns: which of its names are about security, and their form here. Does not own: what they mean (`client.security`).
Invariants: everything else in the file is left alone, as by Kafka's own scripts; nothing about security is ignored.

The environment and profiles have the client's own names, `sasl_password` for `sasl.password`.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ssl import SSLContext

    from oncelog.client.options.option_types import SecurityOptions

Spelling = Callable[[str], str]
"""Returns the name that a person typed for an option of the client: sasl.mechanism, ONCELOG_SASL_MECHANISM."""
_PREFIXES = ("security_", "sasl_", "ssl_")
TOKEN = "sasl_oauth_token"
"""The one option that only commands have: a token, instead of a function that gets one."""
_TOKENAUTH, _FLAGS = "sasl_tokenauth", {"true": True, "false": False}
_PEM_TYPES = ("ssl_keystore_type", "ssl_truststore_type")


_OF_PROGRAMS = {"sasl_oauth_token_provider", "ssl_context"}
"""The options that are objects, which no file can hold."""


class ClientPropertiesError(Exception):
    """Raised if the file cannot be read, or a setting does not exist; the message names it."""


def dotted(option: str) -> str:
    """Return the option's name as properties files spell it."""
    return option.replace("_", ".")


def read_client_properties(path: str) -> "SecurityOptions":
    """Return the security options in the file. Raises ClientPropertiesError."""
    from oncelog.broker.config.properties import PropertiesError, parse_properties

    try:
        with open(path, encoding="utf-8") as file:
            pairs = parse_properties(file.read())
    except (OSError, ValueError) as error:
        raise ClientPropertiesError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    except PropertiesError as error:
        raise ClientPropertiesError(f"{path}: {error}") from error
    return named_options({name.replace(".", "_"): value for name, value in pairs.items()}, path, dotted)


def named_options(values: Mapping[str, Any], where: str, spelling: Spelling) -> "SecurityOptions":
    """Return those about security, as keyword arguments. Raises ClientPropertiesError for a name that no client has, as
    `where` spells it. Values are checked by the client."""
    found = {name: value for name, value in values.items() if name.startswith(_PREFIXES)}
    for name in _PEM_TYPES:
        if found.get(name) == "PEM":
            del found[name]
    check_names(found, where, spelling)
    if str(found.get(_TOKENAUTH)).lower() in _FLAGS:  # the environment has nothing but text
        found[_TOKENAUTH] = _FLAGS[str(found[_TOKENAUTH]).lower()]
    if TOKEN in found:
        token = found.pop(TOKEN)
        found["sasl_oauth_token_provider"] = lambda: token
    return cast("SecurityOptions", found)


def check_names(names: Collection[str], where: str, spelling: Spelling, others: Collection[str] = ()) -> None:
    """Raises ClientPropertiesError for the first that is neither about security nor one of the `others`."""
    from oncelog.client.wire.security import SecuritySettings

    known = {*(each.name for each in fields(SecuritySettings)), TOKEN, *others} - _OF_PROGRAMS
    for name in names:
        if name not in known:
            from oncelog.protocol.names import owner_of
            from oncelog.tools.asking import did_you_mean

            near = did_you_mean(spelling(name), map(spelling, sorted(known)))
            if not near and (owner := owner_of(name)):
                near = f": it is a setting of {owner}, and says nothing of connections"
            raise ClientPropertiesError(f"{where} has no setting {spelling(name)!r}{near}")


def respelled(sentence: str, spelling: Spelling) -> str:
    """Return a sentence of the client about its options with the names that were typed."""
    return re.sub(rf"\b(?:{'|'.join(_PREFIXES)})\w+", lambda found: spelling(found[0]), sentence)


def tls_context(options: "SecurityOptions") -> "SSLContext | None":
    """Return the TLS context for connections that no client makes. Raises the client's ConfigError."""
    if not options:
        return None
    from oncelog.client.admin.settings import AdminSettings
    from oncelog.client.wire.security import security_of

    return security_of(AdminSettings(**options)).context
