"""A broker over tables: what clients see is the same as over files, also when it stops at any statement.

The tests of transactions, groups and topics run over it as they are, but for those that look into files.
"""

import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from importlib import import_module
from itertools import product
from typing import Any

import pytest

from tests.fakes.broker import VirtualBroker
from tests.fakes.tables_broker import TablesBroker

_ParameterSet = type(pytest.param())
_NEEDS_FILES = re.compile(
    r"\bdisk\b|flush\.policy|tmp_path|epochs_in|files_of|segments_of|while_files_leave|power_cut_in_the_middle_of_a_del"
)
SUITES = (
    "broker.test_administration_lives",
    "broker.test_fetch_states",
    "broker.test_internal_compaction",
    "broker.test_metadata_snapshots",
    "broker.test_produce",
    "broker.test_topic_administration",
    "broker.test_topics",
    "broker.test_wide_topics",
    "group.test_consumer_groups",
    "group.test_deleted_topics",
    "group.test_inventory",
    "group.test_lives",
    "group.test_offsets",
    "group.test_random_lives",
    "group.test_rebalance",
    "group.test_restart",
    "group.test_static_members",
    "group.test_transactional_offsets",
    "security.test_acl_requests",
    "transaction.test_deleted_state",
    "transaction.test_fencing",
    "transaction.test_kafka_bugs",
    "transaction.test_one_round",
    "transaction.test_produce_v2",
    "transaction.test_requests",
    "transaction.test_whole_rounds",
)


def _cases(function: Callable[..., None]) -> Iterator[tuple[str, Callable[[], None]]]:
    """A test with each combination of its parameters' values; nothing if it has other fixtures."""
    axes = [
        [(str(slot), values) for slot, values in enumerate(_values(*mark.args))]
        for mark in getattr(function, "pytestmark", [])
        if mark.name == "parametrize"
    ]
    for chosen in product(*axes):
        given = {name: value for _, values in chosen for name, value in values.items()}
        if given.keys() == inspect.signature(function).parameters.keys():
            yield "-".join([function.__name__, *(slot for slot, _ in chosen)]), partial(function, **given)


def _values(names: str | Sequence[str], sets: Collection[Any]) -> Iterator[dict[str, Any]]:
    wanted = names.replace(",", " ").split() if isinstance(names, str) else names
    for each in sets:
        if isinstance(each, _ParameterSet):
            yield dict(zip(wanted, each.values, strict=True))
        else:
            yield dict(zip(wanted, [each] if len(wanted) == 1 else each, strict=True))


def _tests() -> Iterator[Any]:
    for suite in SUITES:
        module = import_module(f"tests.unit.{suite}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            is_own = name.startswith("test_") and function.__module__ == module.__name__
            if is_own and not _NEEDS_FILES.search(inspect.getsource(function)):
                marks = [mark for mark in getattr(function, "pytestmark", []) if mark.name == "interpreted"]
                for case, test in _cases(function):
                    yield pytest.param(test, marks=marks, id=f"{suite.rpartition('.')[2]}-{case}")


@pytest.fixture
def over_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every broker of this test keeps its records in tables."""
    for name, module in list(sys.modules.items()):
        if name.startswith("tests.") and getattr(module, "VirtualBroker", None) is VirtualBroker:
            monkeypatch.setattr(module, "VirtualBroker", TablesBroker)


@pytest.mark.sampled(40)
@pytest.mark.usefixtures("over_tables")
@pytest.mark.parametrize("test", list(_tests()))
def test_what_clients_see_is_the_same(test: Callable[[], None]) -> None:
    test()
