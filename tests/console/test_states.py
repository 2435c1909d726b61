"""Every place that shows the state of a transaction says of every state what it is: one table of states by places.

A decided transaction is nowhere open: it has no timeout, nothing aborts it, and it waits for markers that are named.
"""

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from oncelog.broker.admin.collection import Collection
from oncelog.cli import main
from oncelog.client import Admin, TopicPartition
from oncelog.client.blocking.clients import Producer
from oncelog.client.values.records import ConsumerGroupMetadata
from oncelog.console.pages import PAGES
from oncelog.faults import Action, Point, Rule
from oncelog.protocol.transaction_states import STATE_NAMES
from oncelog.testing import Broker
from oncelog.testing.lives import ThreadLife
from oncelog.tools import doctor as doctor_module
from oncelog.tools.txn import operations
from tests.support.console.consoles import OURS, console, text_of
from tests.support.patience import GIVES_UP_MS
from tests.support.transactions.states_scene import in_state, topic_of

DECIDED = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")
WORDS = {
    "Empty": "Nothing open",
    "Ongoing": "Open",
    "PrepareCommit": "Decided: COMMIT, waiting for markers of of-PrepareCommit-1",
    "PrepareAbort": "Decided: ABORT, waiting for markers of of-PrepareAbort-1",
    "PrepareEpochFence": "Decided: ABORT, by a fence, waiting for markers of of-PrepareEpochFence-0, "
    "of-PrepareEpochFence-1",  # none was sent yet
    "CompleteCommit": "Ended: COMMIT",
    "CompleteAbort": "Ended: ABORT",
    "Dead": "Nothing open: the id has expired",
}
OUTCOMES = {state: re.sub(" of of-.*", "", words) for state, words in WORDS.items()}
"""The words on pages that leave the partitions out."""
STEPS = {state: outcome.removesuffix(", waiting for markers") for state, outcome in OUTCOMES.items()}
"""The outcome of each logged step, whatever has come since."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with a transactional id in each state, named after it."""
    with Broker() as running, ExitStack() as stack:
        for state in STATE_NAMES:
            stack.enter_context(in_state(running, state))
        yield running


def get(broker: Broker, address: str) -> str:
    """Return the text of a page of the console, and the addresses of its buttons."""

    async def load() -> str:
        async with console(broker.bootstrap_servers) as client:
            page = (await client.get(address)).text
        actions = re.findall(r'(?:class="button[^"]*" href|<form method="post" action)="([^"]*)"', page)
        # A partition is a link with its number set apart, and links have no comma between them.
        said = text_of(page).replace(" -", "-")
        return " ".join([re.sub(r"(?<=[0-9]) (?=of-)", ", ", said), *actions])

    return asyncio.run(load())


def run(broker: Broker, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "-b", broker.bootstrap_servers])


def row_of(text: str, state: str) -> str:
    """The part of a page's list between this id and the next one; a badge repeats its state."""
    found = re.search(rf"(?<![-\w]){state} {state} (.*?)(?=(?:{'|'.join(STATE_NAMES)}) (?!ago)|$)", text)
    return "" if found is None else f"{state} {found[1]}"


# --- places: what each says of a state --------------------------------------------------------------------------------


def overview(broker: Broker, state: str) -> str:
    return row_of(get(broker, "/"), state)


def transactions(broker: Broker, state: str) -> str:
    text = get(broker, f"/transactions?state={state}")
    return text.partition("Find")[2]


def transaction(broker: Broker, state: str) -> str:
    return get(broker, f"/transaction?id={state}").partition("Its steps")[0] + " ".join(
        re.findall(r"/fence\?\S+", get(broker, f"/transaction?id={state}"))
    )


def fence_page(broker: Broker, state: str) -> str:
    return get(broker, f"/fence?id={state}")


def partition(broker: Broker, state: str) -> str:
    text = get(broker, f"/partition?topic={topic_of(state)}&partition=1")
    return text.partition("Without a marker here")[2]


def producers(broker: Broker, state: str) -> str:
    return get(broker, f"/producers?topic={topic_of(state)}&partition=1").partition("transactional id")[2]


def steps(broker: Broker, state: str) -> str:
    return get(broker, f"/steps?q={state}").partition("partitions")[2]


def txn_list(broker: Broker, state: str) -> str:
    return run(broker, "txn", "list", "--state", state).output


def txn_describe(broker: Broker, state: str) -> str:
    return run(broker, "txn", "describe", state).output


def txn_tail(broker: Broker, state: str) -> str:
    options = ("--from-beginning", "--state", state, "--transactional-id-pattern", state, "--count", "1")
    return run(broker, "txn", "tail", *options).stdout


def txn_tail_json(broker: Broker, state: str) -> str:
    options = ("--from-beginning", "--state", state, "--transactional-id-pattern", state, "--count", "1", "--json")
    return str(json.loads(run(broker, "txn", "tail", *options).stdout)["meaning"])


def find_hanging(broker: Broker, _: str) -> str:
    return run(broker, "txn", "find-hanging", "--max-transaction-timeout", "0").output


def doctor(broker: Broker, state: str) -> str:
    """Run the doctor 90 s later, which is longer than it tolerates; return the rows of this state."""
    now_ns = time.time_ns() + 90_000_000_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor_module, "time", SimpleNamespace(time_ns=lambda: now_ns, perf_counter=time.perf_counter))
        rows = json.loads(run(broker, "doctor", "--json").stdout)
    return " ".join(f"{row['result']} {row['detail']}" for row in rows if re.match(rf"{state}\b(?!-)", row["detail"]))


def metrics(broker: Broker, state: str) -> str:
    life = broker._running()
    assert isinstance(life, ThreadLife)
    running = life._running
    found = life._call(Collection(running.broker, 100, running._refresh, running._bounds).collect())
    families = {each.family.name: {sample.labels: sample.value for sample in each.samples} for each in found}
    gauges = ("open_transactions", "decided_transactions")
    return " ".join(
        [*(f"{name} {families[name][()]}" for name in gauges), f"{state} {families['transactional_ids'][state,]}"]
    )


def admin_port(broker: Broker, state: str) -> str:
    (shown,) = (each for each in broker.faults.transactions() if each["transactional_id"] == state)
    return f"{shown['state']}: {shown['meaning']}"


def test_api(broker: Broker, state: str) -> str:
    (shown,) = (each for each in broker.transactions() if each.transactional_id == state)
    return shown.state


test_api.__test__ = False  # type: ignore[attr-defined]


def everywhere(of: dict[str, str]) -> dict[str, tuple[str, ...]]:
    return {state: (words,) for state, words in of.items()}


NOTHING: dict[str, tuple[str, ...]] = dict.fromkeys(STATE_NAMES, ())
BADGES = {state: (state,) for state in STATE_NAMES}
HOLDS = ("Ongoing", *DECIDED)

TABLE: dict[Callable[[Broker, str], str], dict[str, tuple[str, ...]]] = {
    # What is said of each state, piece by piece.
    overview: {
        state: (WORDS[state],) if state in DECIDED else ("of 15 min 0 s",) * (state in HOLDS) for state in WORDS
    },
    transactions: {
        **BADGES,
        **{state: (state, "Decided, waiting for markers", WORDS[state]) for state in DECIDED},
        "Ongoing": ("Open, the oldest first", "of 15 min 0 s", "/fence?id=Ongoing"),
    },
    transaction: {
        **everywhere(OUTCOMES),
        "PrepareCommit": (WORDS["PrepareCommit"], "cannot change", "and see them then"),
        "PrepareAbort": (WORDS["PrepareAbort"], "cannot change", "and never see them"),
        "PrepareEpochFence": (WORDS["PrepareEpochFence"], "cannot change", "and never see them"),
        "Ongoing": ("Open since", "of 15 min 0 s", "/fence?id=Ongoing"),
    },
    fence_page: {
        **dict.fromkeys(STATE_NAMES, ("no open transaction: nothing is aborted",)),
        "PrepareCommit": (WORDS["PrepareCommit"], "cannot be aborted any more", "readers will see its records"),
        "PrepareAbort": (WORDS["PrepareAbort"], "cannot be aborted any more", "readers will never see its records"),
        "PrepareEpochFence": ("cannot be aborted any more", "readers will never see its records"),
        "Ongoing": ("is aborted on 2 partitions", "/fence?id=Ongoing"),
    },
    partition: {
        **dict.fromkeys(STATE_NAMES, ("No transaction is open on this partition, and none waits for its marker.",)),
        **{state: (OUTCOMES[state], state) for state in DECIDED},
        "Ongoing": ("Ongoing", "/fence?id=Ongoing"),
    },
    producers: {**NOTHING, **{state: (OUTCOMES[state],) for state in DECIDED}, "Ongoing": ("O 0",)},
    steps: {**BADGES, **{state: (STEPS[state],) for state in DECIDED}},
    txn_list: everywhere(OUTCOMES),
    txn_describe: everywhere(WORDS),
    txn_tail: {**BADGES, **{state: (STEPS[state],) for state in DECIDED}},
    txn_tail_json: everywhere(STEPS),
    find_hanging: dict.fromkeys(STATE_NAMES, ("No transaction hangs",)),
    doctor: {
        **NOTHING,
        **{state: ("look", WORDS[state][1:], "neither its timeout nor a fence ends it") for state in DECIDED},
        "Ongoing": ("look", "is open for ", "its timeout is 900 s", "`oncelog txn fence Ongoing` ends it"),
    },
    metrics: {state: ("open_transactions 1", "decided_transactions 3", f"{state} 1") for state in STATE_NAMES},
    admin_port: {state: (f"{state}: {words}",) for state, words in WORDS.items()},
    test_api: BADGES,
}
NEVER = {"Ongoing": ("Decided", "hangs and")}
"""Words that no place shows of an open transaction; below, of any other: a timeout, or a way to abort it."""
NEVER_OF_OTHERS = (
    "of 15 min 0 s",
    "/fence?id=",
    "Open since",
    "is open for",
    "ends it on all",
    "its timeout is",
    "overdue",
)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("place", TABLE, ids=lambda place: place.__name__)
def test_it_says_of_each_state_what_it_is(broker: Broker, place: Callable[[Broker, str], str]) -> None:
    expected = TABLE[place]
    assert set(expected) == set(STATE_NAMES)
    for state in STATE_NAMES:
        said = place(broker, state)
        for piece in expected[state]:
            assert piece in said, (state, piece, said)
        never = NEVER.get(state, NEVER_OF_OTHERS)
        if place is fence_page and state not in HOLDS:
            never = ()  # its producer may be fenced
        for piece in never:
            assert piece not in said, (state, piece, said)


@pytest.mark.parametrize("state", DECIDED)
def test_nothing_aborts_what_is_decided(broker: Broker, state: str) -> None:
    place = f"topic={topic_of(state)}&partition=1"

    async def post(address: str) -> tuple[int, str]:
        async with console(broker.bootstrap_servers) as client:
            answer = await client.post(address, headers=OURS)
            return answer.status_code, text_of(answer.text).replace(" -", "-")

    sentence = f"the transaction of {state!r} is d{WORDS[state][1:]}: it cannot be aborted any more"
    status, said = asyncio.run(post(f"/fence?id={state}"))
    assert status == 409 and "Decided already" in said and sentence in said and "CONCURRENT_TRANSACTIONS" in said
    status, said = asyncio.run(post(f"/abort?{place}&start=0"))
    assert status == 404 and f"{OUTCOMES[state]}" in said and "fence it" not in said
    page = get(broker, f"/abort?{place}&start=0")
    assert "nothing else may" in page and OUTCOMES[state] in page and "/fence?id=" not in page
    if state != "PrepareEpochFence":  # Kafka has no response to an InitProducerId in this state, and logs it never
        fenced = run(broker, "txn", "fence", state, "--timeout", str(GIVES_UP_MS // 1_000))
        assert fenced.exit_code == 2 and sentence in fenced.stderr
    at = ("--topic", topic_of(state), "--partition", "1")
    aborted = run(broker, "txn", "abort", *at, "--start-offset", "0")
    assert aborted.exit_code == 2 and sentence in aborted.stderr
    assert {each.transactional_id: each.state for each in broker.transactions()}[state] == state


def test_a_commit_that_is_decided_after_the_page_was_loaded_is_neither_fenced_nor_lost() -> None:
    with Broker() as broker, Producer(broker.bootstrap_servers, transactional_id="till") as producer:
        transaction = producer.transaction().__enter__()
        transaction.send("orders", b"an order", partition=0)
        producer.flush()
        assert "is aborted on 1 partition" in get(broker, "/fence?id=till")
        held = broker.faults.plant(Rule(Point.MARKER, Action.HOLD, times=None))
        transaction.commit()

        async def fence() -> tuple[int, str]:
            async with console(broker.bootstrap_servers) as client:
                answer = await client.post("/fence?id=till", headers=OURS)
                return answer.status_code, text_of(answer.text)

        status, said = asyncio.run(fence())
        assert status == 409 and "decided: COMMIT, waiting for markers of orders-0" in said
        broker.faults.remove(held)
        assert [record.value for record in broker.records("orders")] == [b"an order"]


def test_a_commit_that_is_decided_before_the_fence_arrives_is_shown_as_a_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Broker() as broker, Producer(broker.bootstrap_servers, transactional_id="till") as producer:
        transaction = producer.transaction().__enter__()
        transaction.send("orders", b"an order", partition=0)
        fence = operations.fence

        async def slow(admin: Admin, transactional_ids: Sequence[str]) -> list[operations.Row]:
            await asyncio.to_thread(transaction.commit)
            return await fence(admin, transactional_ids)

        async def answer() -> str:
            async with console(broker.bootstrap_servers) as client:
                response = await client.post("/fence?id=till", headers=OURS)
                return text_of((await client.get(response.headers["location"])).text)

        monkeypatch.setattr(operations, "fence", slow)
        said = asyncio.run(answer())
        assert "Fenced" in said and "Its last transaction: Ended: COMMIT" in said and "aborted" not in said


def test_txn_fence_says_what_it_has_found() -> None:
    with Broker() as other, in_state(other, "Ongoing"), in_state(other, "CompleteCommit"):
        found = json.loads(run(other, "txn", "fence", "Ongoing", "CompleteCommit", "--json").stdout)
    assert [(row["transactional_id"], row["found"]) for row in found] == [
        ("Ongoing", "Open"),
        ("CompleteCommit", "Ended: COMMIT"),
    ]


def test_a_pending_offset_of_a_decided_transaction_is_shown_with_the_outcome() -> None:
    with Broker() as broker, Producer(broker.bootstrap_servers, transactional_id="till") as producer:
        broker.produce("orders", b"an order")
        transaction = producer.transaction().__enter__()
        transaction.send_offsets({TopicPartition("orders", 0): 1}, group=ConsumerGroupMetadata("billing"))
        assert "till" in get(broker, "/group?id=billing") and "Decided" not in get(broker, "/group?id=billing")
        held = broker.faults.plant(Rule(Point.MARKER, Action.HOLD, times=None))
        transaction.commit()
        assert "O 1 till Decided: COMMIT, waiting for markers" in get(broker, "/group?id=billing")
        broker.faults.remove(held)


def test_the_table_has_every_page_of_the_console_that_shows_a_transaction() -> None:
    has_place = {"/", "/transactions", "/transaction", "/fence", "/partition", "/producers", "/steps"}
    others = {
        "/topics": "offsets only",
        "/topic": "batches",
        "/messages": "batches",
        "/search": "batches",
        "/settings": "no transaction",
        "/produce": "the console's own transactions alone",
        "/hold": "what is held, with the badge of the state",
        "/groups": "a count of pending offsets",
        "/group": "below",
        "/findings": "mistakes of clients, whatever the state",
        "/abort": "below",
    }
    assert has_place | set(others) == set(PAGES)
