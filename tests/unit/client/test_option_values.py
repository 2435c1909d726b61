"""A value of the wrong type is named at once, with what is due; what a type checker lets through is accepted."""

import dataclasses
import re
from fractions import Fraction
from typing import Any

import pytest

from oncelog.client import Admin, ConfigError, Consumer, Producer, TransactionalSession
from oncelog.client.admin.settings import AdminSettings
from oncelog.client.options.serializers import INT64
from oncelog.client.options.settings import ConsumerSettings, ProducerSettings, SessionSettings
from oncelog.client.options.share_settings import ShareConsumerSettings
from tests.support.tables import rows

ALL = (ProducerSettings, ConsumerSettings, ShareConsumerSettings, SessionSettings, AdminSettings)
NEEDED: dict[Any, dict[str, Any]] = {key: {"group_id": "group"} for key in (SessionSettings, ShareConsumerSettings)}


class Odd:
    """Belongs to no type of an option."""

    def __repr__(self) -> str:
        return "<odd>"


@rows(
    "settings, option",
    [(settings, each) for settings in ALL for each in dataclasses.fields(settings)],
    lambda row: f"{row[0].__name__}.{row[1].name}",
)
def test_no_option_takes_what_is_of_no_type_that_it_declares(settings: Any, option: dataclasses.Field[Any]) -> None:
    shown = "<odd>" if option.repr else r"\[hidden\]"
    with pytest.raises(ConfigError, match=rf"^{option.name}={shown}: must be "):
        settings(**{**NEEDED.get(settings, {}), option.name: Odd()})


@pytest.mark.parametrize(
    ("make", "options", "said"),
    [
        (Producer, {"linger_ms": "5"}, "linger_ms='5': must be a number from 0 to 2147483647 (without quotes: lin"),
        (Producer, {"linger_ms": float("nan")}, "linger_ms=nan: must be a number"),
        (Producer, {"batch_size": -1}, "batch_size=-1: must be an int from 0 to 2147483647"),
        (Producer, {"batch_size": 1e4}, "batch_size=10000.0: must be an int"),
        (Producer, {"batch_size": 2**31}, "batch_size=2147483648: must be an int from 0 to 2147483647"),
        (Producer, {"batch_size": True}, "batch_size=True: must be an int"),
        (Producer, {"buffer_memory": 0}, "buffer_memory=0: must be an int from 1"),
        (Producer, {"acks": 2}, "acks=2: must be one of 'all', -1, 0, 1"),
        (Producer, {"acks": "1"}, "acks='1': must be one of 'all', -1, 0, 1"),
        (Producer, {"enable_idempotence": "no"}, "enable_idempotence='no': must be True or False or None"),
        (Producer, {"value_serializer": "json"}, "must be a function or an object with serialize() or None"),
        (Producer, {"on_send": [print]}, "must be a function or None"),
        (Consumer, {"group_id": 7}, "group_id=7: must be a str or None"),
        (Consumer, {"partition_assignment_strategy": "range"}, "='range': must be a list of str"),
        (Consumer, {"bootstrap_servers": ("127.0.0.1", 9092)}, "must be a str or a list of str"),
        (Consumer, {"bootstrap_servers": "host:99999"}, "'host:99999' is not of the form host:port"),
        (Producer, {"bootstrap_servers": 9092}, "bootstrap_servers=9092: must be a str or a list of str"),
        (Producer, {"bootstrap_servers": ["host:1", 9092]}, "must be a str or a list of str"),
        (Consumer, {"client_id": "x" * 100 + "y", "group_id": b"x" * 100}, "xxx…: must be a str or None"),
        (Admin, {"request_timeout_ms": None}, "request_timeout_ms=None: must be a number"),
        (TransactionalSession, {"producer": {"linger_ms": "5"}}, "linger_ms='5': must be a number"),
        (TransactionalSession, {"consumer": ["earliest"]}, "consumer=['earliest']: must be a dict of options"),
        (TransactionalSession, {"max_records": 0}, "max_records=0: must be an int from 1"),
    ],
)
def test_a_wrong_value_is_answered_with_its_option_and_what_is_due(make: Any, options: Any, said: str) -> None:
    topics = ("topic",) if make is TransactionalSession else ()
    with pytest.raises(ConfigError, match=re.escape(said)):
        make(*topics, **{**({"group_id": "group"} if topics else {}), **options})


def test_a_session_without_a_group_is_refused() -> None:
    with pytest.raises(ConfigError, match=re.escape("TransactionalSession needs group_id")):
        TransactionalSession("topic")  # type: ignore[call-arg]


def test_every_kind_of_number_and_objects_that_serialize_are_accepted() -> None:
    made = ProducerSettings(linger_ms=Fraction(3, 2), max_block_ms=7, value_serializer=INT64)  # type: ignore[arg-type]
    assert (made.linger_ms, made.max_block_ms) == (1.5, 7)
    assert ProducerSettings(key_serializer=str.encode, acks=-1).acks_value == -1
