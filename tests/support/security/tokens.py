"""An issuer of tokens for OAUTHBEARER: its keys, and tokens with any claims and headers."""

import json
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa


class Issuer:
    def __init__(self, *, now_s: int = 1_700_000_000) -> None:
        self.key = rsa.generate_private_key(65_537, 2_048)
        self.curve_key = ec.generate_private_key(ec.SECP256R1())
        self.now_s = now_s

    def jwks(self) -> dict[str, Any]:
        """An RSA key by the id `one`, one on a curve by the id `two`."""
        rsa_key = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        curve_key = jwt.algorithms.ECAlgorithm.to_jwk(self.curve_key.public_key(), as_dict=True)
        return {"keys": [{**rsa_key, "kid": "one", "use": "sig"}, {**curve_key, "kid": "two"}]}

    def write_jwks(self, path: Path) -> str:
        """Its URL."""
        path.write_text(json.dumps(self.jwks()))
        return path.as_uri()

    def claims(self, **changes: Any) -> dict[str, Any]:
        """`None` takes a claim away."""
        claims = {
            "sub": "alice",
            "iss": "https://issuer.example",
            "aud": "kafka",
            "iat": self.now_s,
            "exp": self.now_s + 3_600,
            **changes,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(
        self, *, key: Any = None, algorithm: str = "RS256", headers: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        head = {"kid": "one", **(headers or {})}
        head = {name: value for name, value in head.items() if value is not None}
        return jwt.encode(self.claims(**claims), key or self.key, algorithm, head)
