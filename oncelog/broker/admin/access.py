"""Who may ask an HTTP port: decided of the head of each request, before its body is read.

Owns: the checks and their order. Does not own: HTTP (`http`), tokens (`token`), what a path does (`routes`,
`metrics_routes`).

- Host must name this machine, so that no web page reaches it under a name of its own (DNS rebinding): localhost, a
  plain number (of loopback, if the port is there), or a name that is known to be this machine's.
- A request of a web page must come from this port itself: its Origin has the same scheme and host, and the browser does
  not call it cross-site.
- What changes something must be declared as JSON: a browser asks before it sends that to another site, and is refused.
- Where there is a token, the header Authorization must have it, but for the paths that an orchestrator asks. A token in
  the address of a request is refused: addresses are written to logs and histories.
"""

import re
from collections.abc import Collection, Sequence
from ipaddress import ip_address
from urllib.parse import parse_qsl

from oncelog.broker.admin.messages import HttpError
from oncelog.broker.admin.token import Token
from oncelog.broker.config.admin_address import TOKEN_FILES, HttpAddress, is_admin_host
from oncelog.broker.security.principal import ANONYMOUS, Principal

Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case."""
_JSON = b"application/json"
_PORT = re.compile(r":[0-9]*\Z")
_WITHOUT_TOKEN = frozenset((b"/healthz", b"/readyz"))
_TOKEN_PARAMETERS = frozenset(("token", "access_token"))
_ONCE = (b"authorization", b"host", b"origin", b"content-type")


class Access:
    def __init__(
        self,
        name: str,
        address: HttpAddress,
        token: Token | None = None,
        host_names: Collection[str] = (),
        *,
        read_only: bool = False,
    ) -> None:
        """`name` is the port's name: the principal of its token is `Token:NAME`. With `read_only` nothing but GET and
        HEAD is allowed."""
        self._name = name
        self._token = token
        self._read_only = read_only
        self._scheme = b"https://" if address.has_tls else b"http://"
        self._is_local = address.is_local
        self._host_names = frozenset(each.lower() for each in (*host_names, address.host) if each)

    def replace_token(self, token: Token) -> bool:
        """Ask for this token from now on; return whether it is another one."""
        is_other, self._token = token != self._token, token
        return is_other

    def check(self, method: str, target: bytes, headers: Headers) -> Principal:
        """Return the principal of a request. Raises HttpError if the request may not be served."""
        found = dict(headers)
        if any(sum(name == each for name, _ in headers) > 1 for each in _ONCE):
            raise HttpError(400, "send each of the headers Authorization, Host, Origin and Content-Type only once")
        self._check_site(found)
        path, _, query = target.partition(b"?")
        if not path.startswith(b"/"):
            raise HttpError(400, "the request must name a path, such as /metrics")
        principal = self._principal_of(path, query, found.get(b"authorization", b""))
        self._check_method(method, found.get(b"content-type", b""))
        return principal

    def _check_site(self, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host", b"")
        if not self._is_host(_PORT.sub("", host.decode("latin-1")).lower()):
            raise HttpError(403, "the Host header does not name this machine: add the name to oncelog.http.host.names")
        is_foreign = headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin")
        if is_foreign or headers.get(b"origin") not in (None, self._scheme + host):
            raise HttpError(403, "requests from web pages of other sites are refused")

    def _is_host(self, host: str) -> bool:
        name = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if name == "localhost" or name in self._host_names or is_admin_host(name):
            return True
        return not self._is_local and _is_number(name)

    def _principal_of(self, path: bytes, query: bytes, authorization: bytes) -> Principal:
        parameters = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
        if any(name.lower() in _TOKEN_PARAMETERS for name, _ in parameters):
            raise HttpError(400, "a token must not be in the address: send it in the header Authorization")
        if self._token is None or path in _WITHOUT_TOKEN:
            return ANONYMOUS
        if not self._token.is_in(authorization):
            raise HttpError(
                401,
                f"{'wrong token' if authorization else 'no token'}: send the header Authorization: Bearer TOKEN, with "
                f"the one in the file that the broker's {TOKEN_FILES[self._name]} names",
            )
        return Principal("Token", self._name)

    def _check_method(self, method: str, content_type: bytes) -> None:
        if method in ("GET", "HEAD"):
            return
        if self._read_only:
            raise HttpError(405, "only GET is served here")
        if content_type.partition(b";")[0].strip().lower() != _JSON:
            raise HttpError(415, "send Content-Type: application/json")


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
