"""One way to send, whoever sends: the arguments of a record are those of `RecordOptions`."""

import inspect
from collections.abc import Callable
from typing import Any, TypedDict, Unpack, get_args, get_origin, get_type_hints

import pytest

from oncelog import Producer, ProducerRecord, RecordOptions, SessionBatch, Transaction, sync

SENDERS = (Producer, Transaction, SessionBatch, sync.Producer, sync.Transaction)


def options_of(method: Callable[..., Any]) -> list[str]:
    """The names of the keyword arguments, also of a method that takes them as a TypedDict."""
    (options,) = get_args(get_type_hints(method).get("options", Unpack[TypedDict("None_", {})]))
    keywords = [each for each in inspect.signature(method).parameters.values() if each.kind is each.KEYWORD_ONLY]
    return [*get_type_hints(get_origin(options) or options), *(each.name for each in keywords)]


@pytest.mark.parametrize("name", ["send", "send_soon"])
@pytest.mark.parametrize("sender", SENDERS, ids=lambda each: f"{each.__module__}.{each.__name__}")
def test_every_sender_takes_the_same_arguments(sender: type, name: str) -> None:
    assert options_of(getattr(sender, name)) == list(get_type_hints(RecordOptions))


def test_a_record_as_a_value_has_the_arguments_as_its_fields() -> None:
    assert set(ProducerRecord._fields) == {"topic", "value", *get_type_hints(RecordOptions)}
