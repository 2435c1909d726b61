"""No password, token or key is shown: by a `repr`, an error, a description of settings."""

from typing import Any

import pytest

from oncelog.broker.cluster.security_state import SecurityState
from oncelog.broker.config.broker_keys import BROKER_KEYS
from oncelog.broker.config.config_key import ConfigType
from oncelog.broker.config.settings import ConfigError, load_config
from oncelog.broker.security.jaas import parse_jaas
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.generated import (
    alter_user_scram_credentials_request,
    create_delegation_token_response,
    describe_delegation_token_response,
    expire_delegation_token_request,
    renew_delegation_token_request,
    sasl_authenticate_request,
    sasl_authenticate_response,
    user_scram_credential_record,
)
from oncelog.protocol.generated.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from tests.fakes.broker import VirtualBroker
from tests.support.tables import rows

SECRET = "hunter2-secret"
PASSWORDS = [name for name, key in BROKER_KEYS.items() if key.type is ConfigType.PASSWORD]
_BROKER = 4


@rows("name", PASSWORDS)
@rows("prefix", ["", "listener.name.one.", "listener.name.one.plain.", "x."])
@pytest.mark.parametrize("value", [SECRET, f'"{SECRET}', f'x required user_alice="{SECRET}'])
def test_no_setting_shows_what_is_secret_in_it_however_wrong_it_is(prefix: str, name: str, value: str) -> None:
    try:
        shown: object = load_config(overrides=[f"{prefix}{name}={value}"])
    except ConfigError as error:
        shown = error
    assert SECRET not in f"{shown!r} {shown}"


def test_no_description_of_a_broker_shows_a_secret() -> None:
    virtual = VirtualBroker(*(f"{name}={SECRET}" for name in PASSWORDS))
    wanted = DescribeConfigsResource(resource_type=_BROKER, resource_name="1", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=True, include_documentation=True)
    (described,) = virtual.ask(request, 4).results
    listed = {entry.name: (entry.value, entry.is_sensitive) for entry in described.configs}
    assert {name: listed[name] for name in PASSWORDS if name in listed} == dict.fromkeys(PASSWORDS, (None, True))
    assert SECRET not in repr(described) + repr(virtual.warnings)


_VALUE = SECRET.encode()


@pytest.mark.parametrize(
    "message",
    [
        sasl_authenticate_request.SaslAuthenticateRequest(auth_bytes=_VALUE),
        sasl_authenticate_response.SaslAuthenticateResponse(auth_bytes=_VALUE),
        alter_user_scram_credentials_request.ScramCredentialUpsertion(salted_password=_VALUE),
        user_scram_credential_record.UserScramCredentialRecord(stored_key=_VALUE, server_key=_VALUE),
        create_delegation_token_response.CreateDelegationTokenResponse(hmac=_VALUE),
        describe_delegation_token_response.DescribedDelegationToken(hmac=_VALUE),
        renew_delegation_token_request.RenewDelegationTokenRequest(hmac=_VALUE),
        expire_delegation_token_request.ExpireDelegationTokenRequest(hmac=_VALUE),
    ],
    ids=lambda each: type(each).__name__,
)
def test_no_message_or_record_shows_a_secret(message: Any) -> None:
    assert SECRET not in repr(message)
    with pytest.raises(KafkaError) as caught:
        SecurityState().replay((message,), 0)
    assert SECRET not in f"{caught.value!r} {caught.value}"


def test_no_login_module_shows_its_options() -> None:
    module = parse_jaas(f'Plain required user_alice="{SECRET}" password="{SECRET}";')
    assert module.passwords == {"alice": SECRET}
    assert SECRET not in repr(module)
