"""One way to send in every client; and the blocking clients are the asyncio ones, name by name."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any, TypedDict, Unpack, get_args, get_origin, get_type_hints

import pytest

from oncelog import (
    Admin,
    Consumer,
    Delivery,
    Producer,
    ProducerRecord,
    RecordOptions,
    SessionBatch,
    ShareConsumer,
    Transaction,
    TransactionalSession,
    sync,
)

SENDERS = (Producer, Transaction, SessionBatch, sync.Producer, sync.Transaction, sync.SessionBatch)


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


FACADES = [
    (asynchronous, getattr(sync, asynchronous.__name__))
    for asynchronous in (
        Admin,
        Producer,
        Consumer,
        ShareConsumer,
        TransactionalSession,
        SessionBatch,
        Transaction,
        Delivery,
    )
]
IDS = [asynchronous.__name__ for asynchronous, _ in FACADES]
MORE = {
    ("Producer", "send_many"): "one call to the loop for many records",
    ("Transaction", "send_many"): "one call to the loop for many records",
}
OTHER_SIGNATURES = {
    ("Producer", "send_soon"): "spells the options out, see above",
    ("Consumer", "raw_batches"): "returns a list: nothing could be read meanwhile anyhow",
    ("Delivery", "result"): "waits, so it has a timeout; the asyncio one is awaited",
    ("Delivery", "add_done_callback"): "gets the blocking delivery",
}
_BLOCKING = {"__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__", "__await__": "result"}
_SPECIAL = {*_BLOCKING, *_BLOCKING.values(), "__len__", "__getitem__"}


def members(kind: type) -> dict[str, Any]:
    """The members that a program uses, with the attributes that are set when an object is made."""
    found: dict[str, Any] = {}
    for base in kind.__bases__:
        found |= {name: each for name, each in vars(base).items() if name in _SPECIAL}
    found |= vars(kind)
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(kind)))):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            found.setdefault(node.attr, None)
    return {name: each for name, each in found.items() if not name.startswith("_") or name in _SPECIAL}


def shown(annotation: object) -> str:
    """An annotation, whichever of the two sides it is of."""
    text = inspect.formatannotation(annotation) if not isinstance(annotation, str) else annotation
    text = re.sub(r"\b[a-z_.]+\.(?=[A-Z])|['\"]", "", text).replace("AsyncIterator", "Iterator")
    return re.sub(r"^Coroutine\[Any, Any, (.*)\]$", r"\1", text)  # what awaiting returns


def signature(method: Callable[..., Any]) -> tuple[list[tuple[str, object, object, str]], str]:
    found = inspect.signature(method)
    each = [(each.name, each.kind, each.default, shown(each.annotation)) for each in found.parameters.values()]
    return each, shown(found.return_annotation)


@pytest.mark.interpreted  # of a compiled class there are no sources to read
@pytest.mark.parametrize(("asynchronous", "blocking"), FACADES, ids=IDS)
def test_the_blocking_client_has_the_names_of_the_asyncio_one(asynchronous: type, blocking: type) -> None:
    wanted = {_BLOCKING.get(name, name) for name in members(asynchronous)}
    more = {name for kind, name in MORE if kind == asynchronous.__name__}
    assert set(members(blocking)) - {"__len__", "__getitem__"} == wanted - {"__len__", "__getitem__"} | more


@pytest.mark.interpreted  # of a compiled class there are no sources to read
@pytest.mark.parametrize(("asynchronous", "blocking"), FACADES, ids=IDS)
def test_each_method_of_the_blocking_client_has_the_signature_of_the_asyncio_one(
    asynchronous: type, blocking: type
) -> None:
    compared = 0
    for name, member in {**members(asynchronous), "__init__": asynchronous.__init__}.items():
        other = vars(blocking).get(name)
        if not inspect.isfunction(member) or other is None or (asynchronous.__name__, name) in OTHER_SIGNATURES:
            continue
        assert signature(other) == signature(member), name
        compared += 1
    assert compared


def test_a_blocking_method_has_the_text_of_the_asyncio_one_without_await() -> None:
    text = sync.Admin.create_topics.__doc__ or ""
    assert "admin.create_topics(" in text and "await" not in text
