"""Builds what decides who may do what, where the settings ask for it.

Owns: which of it is imported; a broker without rights loads none of it.
"""

from typing import TYPE_CHECKING, Any

from oncelog.broker.cluster.metadata_log import (
    MetadataLog,
    ResourceType,
)
from oncelog.broker.config.dynamic_keys import is_security
from oncelog.broker.config.listeners import SecurityProtocol
from oncelog.broker.config.live import LiveConfig
from oncelog.broker.config.settings import BrokerConfig, StartError
from oncelog.broker.log.store import LogStore
from oncelog.broker.turns.machine import System

if TYPE_CHECKING:
    from oncelog.broker.security.authorizer import Authorizer
    from oncelog.broker.security.delegation_tokens import DelegationTokens


def make_authorizer(config: BrokerConfig, metadata: MetadataLog, log: Any) -> "Authorizer | None":
    if not config.get_str("authorizer.class.name"):
        return None
    from oncelog.broker.observability.audit import AuditLog
    from oncelog.broker.security.access_rules import AccessRules
    from oncelog.broker.security.authorizer import Authorizer, parse_super_users

    try:
        super_users = parse_super_users(config.get_str("super.users"))
    except ValueError as error:
        raise StartError(f"super.users: {error}; several are separated by semicolons.") from error
    return Authorizer(
        AccessRules(metadata.state.security),
        super_users,
        allows_unruled=config.get_bool("allow.everyone.if.no.acl.found"),
        audit=AuditLog(log).on_decision,
    )


def find_login_secret(store: LogStore, system: System) -> bytes:
    from oncelog.broker.security.login_secret import login_secret

    return login_secret(store.blobs, system.entropy)


def make_tokens(config: BrokerConfig, metadata: MetadataLog, system: System) -> "DelegationTokens | None":
    if not config.get_str("delegation.token.secret.key"):
        return None
    from oncelog.broker.security.delegation_tokens import DelegationTokens

    return DelegationTokens(
        metadata.state.security, config, system.clock, system.entropy, system.scheduler, metadata.write
    )


def warn_of_security(log: Any, metadata: MetadataLog, live_config: LiveConfig) -> None:
    """Warn about settings of TLS and SASL where nothing reads them: they are stored as in Kafka, and operators may rely
    on them."""
    if any(listener.protocol is not SecurityProtocol.PLAINTEXT for listener in live_config.current.listeners):
        return

    def warn(resource_type: int, name: str) -> None:
        if resource_type == ResourceType.BROKER:
            names = sorted(filter(is_security, metadata.state.config(resource_type, name)))
            if names:
                log.warning("config.no_security", settings=names, message="without effect: every listener is PLAINTEXT")

    live_config.watch(warn)
    warn(ResourceType.BROKER, "")
    warn(ResourceType.BROKER, str(live_config.node_id))
