"""The settings of listeners' security, and of who may do what.

Owns: a table of `broker.config.broker_keys`.
"""

from oncelog.broker.config.config_key import ConfigKey, ConfigType

_BOOLEAN, _STRING, _LIST = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST
_INT, _LONG, _PASSWORD = ConfigType.INT, ConfigType.LONG, ConfigType.PASSWORD

SECURITY_KEYS = (
    # TLS, SASL and tokens: with the prefix listener.name.NAME. for one listener.
    ConfigKey(
        "ssl.client.auth",
        _STRING,
        "none",
        "Whether clients show certificates; SASL_SSL: only with the prefix.",
        choices=("required", "requested", "none"),
    ),
    ConfigKey("ssl.enabled.protocols", _LIST, "TLSv1.2,TLSv1.3", "Versions of TLS.", choices=("TLSv1.2", "TLSv1.3")),
    ConfigKey(
        "ssl.cipher.suites", _LIST, "", "Cipher suites of TLS 1.2 by OpenSSL's or IANA's names; empty: all safe."
    ),
    ConfigKey("ssl.keystore.type", _STRING, "JKS", "PEM or PKCS12; JKS files cannot be read here."),
    ConfigKey("ssl.keystore.location", _STRING, None, "The file with the key and certificate of the broker."),
    ConfigKey("ssl.keystore.password", _PASSWORD, None, "The password of a PKCS12 file."),
    ConfigKey("ssl.keystore.key", _PASSWORD, None, "The private key itself, as PEM (KIP-651)."),
    ConfigKey("ssl.keystore.certificate.chain", _PASSWORD, None, "The certificates themselves, as PEM."),
    ConfigKey("ssl.key.password", _PASSWORD, None, "The password of an encrypted private key."),
    ConfigKey(
        "ssl.truststore.type", _STRING, "JKS", "PEM or PKCS12, of the certificates that clients' are signed with."
    ),
    ConfigKey("ssl.truststore.location", _STRING, None, "The file with these certificates."),
    ConfigKey("ssl.truststore.password", _PASSWORD, None, "The password of a PKCS12 file."),
    ConfigKey("ssl.truststore.certificates", _PASSWORD, None, "These certificates themselves, as PEM."),
    ConfigKey("ssl.allow.dn.changes", _BOOLEAN, "false", "A new certificate may have another distinguished name."),
    ConfigKey("ssl.allow.san.changes", _BOOLEAN, "false", "A new certificate may lack alternative names."),
    ConfigKey(
        "ssl.principal.mapping.rules",
        _STRING,
        "DEFAULT",
        "Which user a certificate stands for: DEFAULT, the whole name, or RULE:PATTERN/REPLACEMENT/[LU],….",
    ),
    ConfigKey(
        "sasl.enabled.mechanisms",
        _LIST,
        "GSSAPI",
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.",
    ),
    ConfigKey(
        "sasl.jaas.config",
        _PASSWORD,
        None,
        "Users of PLAIN, in Kafka's form; with the prefix listener.name.NAME.plain. only.",
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.url",
        _STRING,
        None,
        "Where the keys of tokens are: https: or file:.",
    ),
    ConfigKey("sasl.oauthbearer.jwks.endpoint.refresh.ms", _LONG, "3600000", "How long these keys are used."),
    ConfigKey("sasl.oauthbearer.expected.audience", _LIST, "", "A token is for one of these; unset: for anybody."),
    ConfigKey("sasl.oauthbearer.expected.issuer", _STRING, None, "The expected issuer; unset: any holder of the keys."),
    ConfigKey("sasl.oauthbearer.clock.skew.seconds", _INT, "30", "How far the clocks of issuer and broker may differ."),
    ConfigKey("sasl.oauthbearer.sub.claim.name", _STRING, "sub", "The claim that names the user."),
    ConfigKey("sasl.server.max.receive.size", _INT, "524288", "The largest request before the login is finished."),
    ConfigKey(
        "connection.failed.authentication.delay.ms", _INT, "100", "How long a failed login waits for its end.", 0
    ),
    ConfigKey(
        "connections.max.reauth.ms",
        _LONG,
        "0",
        "A client must log in again after this time, also per mechanism; 0: never.",
    ),
    ConfigKey(
        "delegation.token.secret.key",
        _PASSWORD,
        None,
        "Makes the HMACs of delegation tokens; without it there are none.",
    ),
    ConfigKey("delegation.token.max.lifetime.ms", _LONG, "604800000", "How long a token can be renewed, at most.", 1),
    ConfigKey(
        "delegation.token.expiry.time.ms", _LONG, "86400000", "How long a token counts until it must be renewed.", 1
    ),
    ConfigKey(
        "delegation.token.expiry.check.interval.ms", _LONG, "3600000", "How often expired tokens are removed.", 1
    ),
    ConfigKey(
        "oncelog.authentication.timeout.ms",
        _INT,
        "30000",
        "A connection is closed that has not finished its TLS handshake and its login after this time.",
        1,
    ),
    # Who may do what.
    ConfigKey(
        "authorizer.class.name",
        _STRING,
        "",
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer, or as files before Kafka 4 name it, "
        "kafka.security.authorizer.AclAuthorizer: requests need rights; empty: everything is allowed.",
        choices=(
            "",
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "kafka.security.authorizer.AclAuthorizer",
        ),
    ),
    ConfigKey("super.users", _STRING, "", "Principals that may do everything, such as User:admin;User:root."),
    ConfigKey(
        "allow.everyone.if.no.acl.found",
        _BOOLEAN,
        "false",
        "Whether everything is allowed on a resource to which no access control entry applies.",
    ),
)
