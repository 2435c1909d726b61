"""Tokens for a login by OAUTHBEARER, from the settings that Kafka's clients have for it.

Owns: asking an endpoint with a client's credentials (RFC 6749, 4.4), reading a token's file. Does not own: the login.
Invariant: no repr and no error has a secret or a token in it.
"""

import asyncio
import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote_plus, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener, url2pathname

from oncelog.client import AuthenticationFailed, ConfigError, SecurityOptions
from oncelog.client.wire.security import jaas_values

_MODULE = "OAuthBearerLoginModule"
_EXTENSION = "extension_"
_URL = "sasl_oauthbearer_token_endpoint_url"
_CREDENTIALS = "sasl_oauthbearer_client_credentials_client_"
_PATIENCE_S = 10


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file with a token, read for each login: to renew the token, replace the file."""

    path: str

    async def __call__(self) -> str:
        """Read the token. Raises AuthenticationFailed, with what is wrong with the file."""
        try:
            return (await asyncio.to_thread(Path(self.path).read_text, encoding="ascii")).strip()
        except OSError as error:
            raise AuthenticationFailed(f"the token's file {self.path!r}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise AuthenticationFailed(f"the token's file {self.path!r} has more than ASCII") from None


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """An endpoint that gives out tokens for a client's secret, asked for each login."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""

    async def __call__(self) -> str:
        """Fetch a token. Raises AuthenticationFailed, with the endpoint's answer."""
        return await asyncio.to_thread(self._ask)

    def _ask(self) -> str:
        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        login = b64encode(f"{self.client_id}:{self.client_secret}".encode()).decode()
        headers = {"Authorization": f"Basic {login}", "Accept": "application/json"}
        try:
            with build_opener(_NoRedirect).open(
                Request(self.url, urlencode(form).encode(), headers), timeout=_PATIENCE_S
            ) as answer:
                return str(json.load(answer)["access_token"])
        except HTTPError as error:
            raise AuthenticationFailed(f"{self.url} answered {error.code}") from None
        except OSError as error:
            raise AuthenticationFailed(f"{self.url} cannot be asked: {error}") from None
        except (ValueError, KeyError, TypeError):
            raise AuthenticationFailed(f"{self.url} answered without an access_token") from None


class _NoRedirect(HTTPRedirectHandler):
    """Follows no redirect, so that the secret is sent to the endpoint alone."""

    def redirect_request(self, *_: Any) -> None:
        return None


def token_login(settings: Mapping[str, Any], jaas: str | None) -> SecurityOptions:
    """Return how our client logs in with these settings of Kafka's, by the names of our client. Raises ConfigError."""
    values = {}
    if jaas is not None:
        values = jaas_values(jaas, "OAUTHBEARER", _MODULE, f'{_MODULE} required clientId="..." clientSecret="...";')
    extensions = {name.removeprefix(_EXTENSION): text for name, text in values.items() if name.startswith(_EXTENSION)}
    url = str(settings.get(_URL, "")).strip()
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.path:
        return {"sasl_oauth_token_provider": TokenFile(url2pathname(parts.path)), "sasl_oauth_extensions": extensions}
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise ConfigError(
            "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url: the https: of an endpoint, or the file: of a token"
        )
    client_id = settings.get(f"{_CREDENTIALS}id", values.get("clientId", ""))
    secret = settings.get(f"{_CREDENTIALS}secret", values.get("clientSecret", ""))
    if not client_id or not secret:
        raise ConfigError(
            "an endpoint of tokens needs sasl.oauthbearer.client.credentials.client.id and .client.secret, or "
            "clientId and clientSecret in sasl.jaas.config"
        )
    if settings.get("sasl_oauthbearer_header_urlencode"):
        client_id, secret = quote_plus(client_id), quote_plus(secret)
    scope = settings.get("sasl_oauthbearer_scope", values.get("scope", ""))
    return {
        "sasl_oauth_token_provider": TokenEndpoint(url, client_id, secret, scope),
        "sasl_oauth_extensions": extensions,
    }
