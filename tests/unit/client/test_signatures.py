"""One way to send, whoever sends: the arguments of a record are those of `RecordOptions`."""

import inspect
from collections.abc import Callable
from typing import Any, Unpack, get_type_hints

import pytest

from oncelog import Producer, RecordOptions, SessionBatch, Transaction, sync

SENDERS = (Producer, Transaction, SessionBatch, sync.Producer, sync.Transaction)


def options_of(method: Callable[..., Any]) -> dict[str, Any]:
    """The keyword arguments, also of a method that takes them as a TypedDict."""
    hints = get_type_hints(method)
    keywords = [each for each in inspect.signature(method).parameters.values() if each.kind is each.KEYWORD_ONLY]
    if hints.get("options") == Unpack[RecordOptions]:
        return get_type_hints(RecordOptions)
    return {each.name: hints[each.name] for each in keywords}


@pytest.mark.parametrize("name", ["send", "send_soon"])
@pytest.mark.parametrize("sender", SENDERS, ids=lambda each: f"{each.__module__}.{each.__name__}")
def test_every_sender_takes_the_same_arguments(sender: type, name: str) -> None:
    assert options_of(getattr(sender, name)) == get_type_hints(RecordOptions)
