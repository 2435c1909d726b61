"""All pages: which requests each needs, and what its template is given.

Owns: the table of pages. Does not own: requests (`reading`), meaning (`partition_map`, `life_lines`, `messages`,
`nodes`, `pending`), markup (the templates). A page changes nothing.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from string import Formatter
from typing import Any

from oncelog.client.admin.descriptions import ClusterDescription, ListedGroup, ListedTransaction, TopicDescription
from oncelog.client.admin.share_descriptions import ShareGroupDescription, SharePartitionOffset
from oncelog.client.values.errors import KafkaError
from oncelog.client.values.records import TopicPartition
from oncelog.console import life_lines, partition_map
from oncelog.console.drafts import KINDS
from oncelog.console.holding import STEPS
from oncelog.console.messages import messages_of
from oncelog.console.nodes import NodeRole, roles_of
from oncelog.console.partition_map import Bounds
from oncelog.console.query import BadQuery, Query
from oncelog.console.reading import MOST_DESCRIBED, SET_FOR_TOPIC, Reader, now_ms
from oncelog.console.searching import STATES, Position, Wanted, path_of
from oncelog.console.trouble import UNREACHABLE, status_of
from oncelog.console.writing import TIMEOUTS_MS
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.topics import INTERNAL_TOPICS
from oncelog.protocol.transaction_states import meaning_of
from oncelog.tools.group_types import type_of
from oncelog.tools.log.map.partition import MEANINGS, State

Model = Mapping[str, Any]

_TOPICS_A_PAGE = 50
_TOPICS_COUNTED = 200
"""The most topics whose partitions are counted by leader, each second that the overview is looked at."""
_PARTITIONS_SUMMED = 3_000
"""The most partitions of one page that are summed up, each second: all of them are asked for in four requests, and
2,000 took 0.4 s."""
_PARTITIONS_A_PAGE = 12
_GROUPS_A_PAGE = 20
_TRANSACTIONS_A_PAGE = 50
_PRODUCERS_A_PAGE = 50
_MAP_BATCHES = 300
_STRIP_BATCHES = 48
_MESSAGES_A_PAGE = 100
_OLDEST = 5
_NEWEST_STEPS = 200


@dataclass(frozen=True, slots=True)
class Page:
    """One page. `title` is a format of what the query names; `section` is the address of the page that the bar
    marks."""

    section: str
    title: str
    template: str
    load: Callable[[Reader, Query], Awaitable[Model]]
    is_live: bool = True

    def title_of(self, query: Query) -> str:
        """Raises BadQuery if the query lacks what the title names."""
        names = [name for _, name, _, _ in Formatter().parse(self.title) if name]
        return self.title.format(**{name: query.text(name) for name in names})


async def _overview(reader: Reader, _: Query) -> Model:
    listed = await reader.transactions()
    lines = await _life_lines(reader, life_lines.matching(listed, "", ""))
    states = life_lines.count_by_state(listed)
    names = await reader.topic_names()
    cluster = await reader.cluster()
    return {
        "cluster": cluster,
        "nodes": _nodes(cluster),
        "roles": await _roles(reader, cluster),
        "takeovers": reader.takeovers.seen,
        "led": await _led_by_node(reader, names),
        "topic_count": len(names),
        "groups": await reader.groups(),
        "states": states,
        "transaction_count": len(listed),
        "oldest": lines[:_OLDEST],
        "open_count": life_lines.count_of("open", states),
        "decided_count": life_lines.count_of("decided", states),
    }


def _nodes(cluster: ClusterDescription) -> Mapping[int, tuple[str, int]]:
    """Return the addresses of all nodes, of those too that have ended and may come back."""
    return {**cluster.fenced_nodes, **cluster.nodes}


async def _roles(reader: Reader, cluster: ClusterDescription) -> Mapping[int, NodeRole]:
    """Return what each node does; nothing where the cluster does not say it: to this client, or at all."""
    try:
        quorum = await reader.quorum()
    except KafkaError:  # also a silent controller of Apache Kafka's, whose brokers have said the rest
        return {}
    return roles_of(_nodes(cluster), quorum, now_ms())


async def _led_by_node(reader: Reader, names: Sequence[str]) -> Mapping[int, int] | None:
    """Return how many partitions each node leads: none is a broker that stands by. None if that would cost much, as
    with many topics."""
    if len(names) > _TOPICS_COUNTED:
        return None
    try:
        topics = await reader.topics(names)
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # it was deleted a moment ago
            return None
        raise
    return Counter(leader for topic in topics for leader in topic.leaders)


async def _life_lines(reader: Reader, listed: Sequence[ListedTransaction]) -> list[life_lines.LifeLine]:
    described = await reader.unstable_transactions(listed)
    now = now_ms()
    return life_lines.oldest_first(life_lines.life_line(each, now) for each in described)


async def _topics(reader: Reader, query: Query) -> Model:
    wanted = query.text("q", "")
    names = [each for each in await reader.topic_names() if wanted in each]
    shown = query.page_of(names, _TOPICS_A_PAGE)
    topics = await reader.topics(shown.items)
    summed = list(_affordable(topics))
    bounds = await reader.bounds(place for topic in summed for place in _led(topic))
    rows = [(topic, _sums(topic, bounds) if topic in summed else None, _leaderless_count(topic)) for topic in topics]
    return {"rows": rows, "slice": shown, "wanted": wanted}


def _affordable(topics: Iterable[TopicDescription]) -> Iterator[TopicDescription]:
    """Yield the topics that a page sums up: in their order, each that fits into what is left."""
    left = _PARTITIONS_SUMMED
    for topic in topics:
        if topic.partition_count <= left:
            left -= topic.partition_count
            yield topic


def _sums(topic: TopicDescription, bounds: Mapping[TopicPartition, Bounds]) -> Mapping[str, int]:
    own = [bounds[place] for place in _led(topic)]
    return {
        "offsets": sum(each.high_watermark - each.log_start_offset for each in own),
        "unstable": sum(each.unstable_count for each in own),
    }


def _leaderless_count(topic: TopicDescription) -> int:
    return topic.partition_count - len(_led(topic))


def _led(topic: TopicDescription) -> list[TopicPartition]:
    """Return the partitions that have a leader: a look does not wait for one to get it."""
    return [TopicPartition(topic.name, each.partition) for each in topic.partitions if each.leader >= 0]


async def _topic(reader: Reader, query: Query) -> Model:
    (topic,) = await reader.topics((query.text("topic"),))
    shown = query.page_of(topic.partitions, _PARTITIONS_A_PAGE)
    is_summed = topic.partition_count <= _PARTITIONS_SUMMED
    bounds = await reader.bounds(_led(topic if is_summed else replace(topic, partitions=tuple(shown.items))))
    rows = []
    for each in shown.items:
        place = TopicPartition(topic.name, each.partition)
        strip = None
        if place in bounds:
            window = await reader.window_within(place, bounds[place], None, _STRIP_BATCHES)
            strip = partition_map.strip_of(window)
        rows.append((place, each, strip))
    return {"topic": topic, "sums": _sums(topic, bounds) if is_summed else None, "rows": rows, "slice": shown}


async def _settings(reader: Reader, query: Query) -> Model:
    entries = await reader.settings(query.text("topic"))
    return {"topic": query.text("topic"), "entries": entries, "set_for_topic": SET_FOR_TOPIC}


async def _search(reader: Reader, query: Query) -> Model:
    (topic,) = await reader.topics((query.text("topic"),))
    partition = query.number_or_none("partition")
    led = _led(topic)
    places = led if partition is None else [TopicPartition(topic.name, partition)]
    state = query.text("state", "")
    if state and state not in State.__members__:
        raise BadQuery(f"state={state!r} is none of {', '.join(each.name for each in STATES)}")
    wanted = Wanted(
        query.text("text", ""),
        path_of(query.text("path", "")),
        query.text("equals", ""),
        State[state] if state else None,
    )
    at = query.number_or_none("at")
    if at is not None and TopicPartition(topic.name, at) not in places:
        raise BadQuery(f"at={at} is no partition of {topic.name} that can be read now")
    start = Position(0 if at is None else places.index(TopicPartition(topic.name, at)), query.number_or_none("from"))
    search = None if wanted.is_anything else await reader.search(places, start, wanted)
    return {
        "topic": topic,
        "partition": partition,
        "search": search,
        "goes_on": places[search.goes_on.index] if search and search.goes_on else None,
        "given": {name: query.values.get(name) or None for name in ("text", "path", "equals", "state", "from")},
        "states": {each.name: MEANINGS[each][1] for each in STATES},
        "leaderless_count": _leaderless_count(topic),
    }


async def _partition(reader: Reader, query: Query) -> Model:
    window = await reader.window(query.place, query.number_or_none("from"), _MAP_BATCHES)
    holders = [each for each in await reader.producers(query.place) if each.transaction_start_offset >= 0]
    return {
        "place": query.place,
        "strip": partition_map.strip_of(window),
        "track": partition_map.track_of(window),
        "is_end": query.number_or_none("from") is None,
        "holders": holders,
        "hanging": await reader.hanging(query.place, holders),
        "ids": await reader.owners(each.producer_id for each in holders),
    }


async def _messages(reader: Reader, query: Query) -> Model:
    place, start = query.place, query.number_or_none("from")
    bounds = (await reader.bounds((place,)))[place]
    if start is None:  # the last ones, of those that a look may read
        affordable = await reader.window_within(place, bounds, None, _STRIP_BATCHES)
        start = max(affordable.first_offset, bounds.high_watermark - _MESSAGES_A_PAGE)
    first = max(bounds.log_start_offset, start)
    batches = await reader.batches(place, first, bounds, _MESSAGES_A_PAGE)
    rows = messages_of(batches, first, _MESSAGES_A_PAGE)
    next_offset = rows[-1].offset + 1 if rows else bounds.high_watermark
    return {
        "place": place,
        "bounds": bounds,
        "rows": rows,
        "first": first,
        "older": max(bounds.log_start_offset, first - _MESSAGES_A_PAGE) if first > bounds.log_start_offset else None,
        "newer": next_offset if next_offset < bounds.high_watermark else None,
        "is_end": query.number_or_none("from") is None,
        "has_json": any(each.key.lines or each.value.lines for each in rows),
        "is_laid_out": query.text("json", "") == "lines",
    }


async def _producers(reader: Reader, query: Query) -> Model:
    shown = query.page_of(await reader.producers(query.place), _PRODUCERS_A_PAGE)
    ids = await reader.owners(each.producer_id for each in shown.items)
    return {"place": query.place, "slice": shown, "ids": ids}


async def _transactions(reader: Reader, query: Query) -> Model:
    wanted, state = query.text("q", ""), query.text("state", "")
    listed = await reader.transactions()
    found = life_lines.matching(listed, wanted, state)
    lines = await _life_lines(reader, found)
    described = {each.transaction.transactional_id for each in lines}
    rows: list[life_lines.LifeLine | ListedTransaction] = [*lines]
    rows += [each for each in found if each.transactional_id not in described]
    shown = query.page_of(rows, _TRANSACTIONS_A_PAGE)
    lines = [each for each in shown.items if isinstance(each, life_lines.LifeLine)]
    others = [each for each in shown.items if isinstance(each, ListedTransaction)]
    return {
        "open": [each for each in lines if each.meaning.has_timeout],
        "decided": [each for each in lines if not each.meaning.has_timeout],
        "undescribed": [each for each in others if meaning_of(each.state).holds_readers],
        "rest": [each for each in others if not meaning_of(each.state).holds_readers],
        "slice": shown,
        "states": life_lines.count_by_state(listed),
        "wanted": wanted,
        "state": state,
        "most": MOST_DESCRIBED,
    }


async def _transaction(reader: Reader, query: Query) -> Model:
    described = await reader.transaction(query.text("id"))
    history = await reader.history(described.transactional_id)
    return {
        "line": life_lines.life_line(described, now_ms()),
        "history": history[::-1][:_NEWEST_STEPS],
        "fenced_below": query.number_or_none("fenced"),
        "last_end": next((each.state for each in reversed(history) if meaning_of(each.state).phase == "ended"), None),
    }


async def _steps(reader: Reader, query: Query) -> Model:
    wanted = query.text("q", "")
    steps = [each for each in await reader.newest_steps() if wanted in each.transactional_id]
    return {"steps": life_lines.newest_first(steps, _NEWEST_STEPS), "wanted": wanted}


async def _groups(reader: Reader, query: Query) -> Model:
    wanted = query.text("q", "")
    shown = query.page_of([each for each in await reader.groups() if wanted in each.group_id], _GROUPS_A_PAGE)
    rows = [(each, *await _lag_and_pending(reader, each)) for each in shown.items]
    return {"rows": rows, "slice": shown, "wanted": wanted}


async def _lag_and_pending(reader: Reader, group: ListedGroup) -> tuple[int | None, int]:
    """Return the lag of a group and its number of pending offsets. The lag is None for a group that has none: a share
    group that has read nothing, or a group that is gone since the list was made."""
    try:
        if group.type == "share":
            return _lag_of(await reader.share_offsets(group.group_id)), 0
        lag = sum(each.lag for each in await reader.lag(group.group_id))
    except KafkaError as error:
        if status_of(error) == UNREACHABLE:
            raise
        return None, 0
    return lag, len(await reader.pending(group.group_id))


def _lag_of(offsets: Mapping[TopicPartition, SharePartitionOffset]) -> int | None:
    known = [each.lag for each in offsets.values() if each.lag is not None]
    return sum(known) if known else None


async def _group(reader: Reader, query: Query) -> Model:
    group_id = query.text("id")
    group = await reader.group(group_id)
    if isinstance(group, ShareGroupDescription):
        return await _share_group(reader, query, group)
    pending = await reader.pending(group_id)
    lags = {each.topic_partition: each for each in await reader.lag(group_id)}
    return {
        "group": group,
        "type": type_of(group),
        "slice": query.page_of(sorted({*lags, *pending}), _PRODUCERS_A_PAGE),
        "lags": lags,
        "pending": pending,
        "ids": await reader.owners(each.producer_id for each in pending.values()),
        "total_lag": sum(each.lag for each in lags.values()),
    }


_FAILED_RECORDS = 20
"""The most failed records that the page of a share group lists."""


async def _share_group(reader: Reader, query: Query, group: ShareGroupDescription) -> Model:
    offsets = await reader.share_offsets(group.group_id)
    places = query.page_of(sorted(offsets), _PRODUCERS_A_PAGE)
    partitions = await reader.share_partitions(group.group_id)
    known = {TopicPartition(each.topic, each.partition): each for each in partitions or ()}
    failed = [(place, record) for place, each in known.items() for record in each.failed]
    return {
        "group": group,
        "type": "share",
        "in_flight": None if partitions is None else {place: each for place, each in known.items() if each.is_in_use},
        "failed": sorted(failed, key=lambda each: -each[1].failure_count)[:_FAILED_RECORDS],
        "slice": places,
        "offsets": offsets,
        "bounds": await reader.bounds(places.items),
        "readers": {place: [each for each in group.members if place in each.partitions] for place in places.items},
        "total_lag": _lag_of(offsets),
    }


_FIELDS = ("topic", "key", "partition", "kind", "value", "headers", "transaction", "id", "timeout")
_OFFERED_IDS = 200
_OFFERED_TOPICS = 200
"""The most topics that the form of a record offers."""


async def _produce(reader: Reader, query: Query) -> Model:
    return await produce_form(reader, query)


async def produce_form(reader: Reader, given: Query) -> dict[str, Any]:
    """Return the form of a record, as it was filled in, and what this console has begun."""
    own = reader.writer.transactions
    last = {each.transactional_id: each.number for each in reversed(own)}
    try:
        states = {each.transactional_id: each.state for each in await reader.transactions()} if own else {}
        names = [name for name in await reader.topic_names() if name not in INTERNAL_TOPICS][:_OFFERED_TOPICS]
    except (KafkaError, OSError):  # what was typed, and what is open, is shown all the same
        states, names = {}, []
    return {
        "given": {name: given.text(name, "") for name in _FIELDS},
        "is_sent": given.text("sent", "") != "",
        "written": (given.text("topic", ""), given.number("at"), given.number("offset"))
        if given.values.get("offset") and given.values.get("at")
        else None,
        "topic_names": names,
        "kinds": KINDS,
        "timeouts_ms": TIMEOUTS_MS,
        "own": own,
        # Of the last one of each id: of those before it the coordinator knows nothing any more.
        "states": {number: states[each] for each, number in last.items() if each in states},
        "title": "",
        "message": "",
        "hint": "",
    }


async def _hold(reader: Reader, query: Query) -> Model:
    held, other_count = await reader.holder.steps() if reader.holder else ([], 0)
    listed = await reader.transactions()
    return {
        "id": query.text("id", ""),
        "ids": [each.transactional_id for each in listed][:_OFFERED_IDS],
        "states": {each.transactional_id: each.state for each in listed},
        "steps": STEPS,
        "held": held,
        "other_count": other_count,
    }


async def _findings(reader: Reader, _: Query) -> Model:
    return {"report": await reader.findings()}


async def _fence(reader: Reader, query: Query) -> Model:
    described = await reader.transaction(query.text("id"))
    return {"line": life_lines.life_line(described, now_ms())}


async def _abort(reader: Reader, query: Query) -> Model:
    start = query.number("start")
    holders = [each for each in await reader.producers(query.place) if each.transaction_start_offset == start]
    return {
        "place": query.place,
        "start": start,
        "holders": holders,
        "hanging": await reader.hanging(query.place, holders),
        "ids": await reader.owners(each.producer_id for each in holders),
    }


PAGES = {
    "/": Page("/", "Overview", "overview", _overview),
    "/topics": Page("/topics", "Topics", "topics", _topics),
    "/topic": Page("/topics", "Topic {topic}", "topic", _topic),
    "/settings": Page("/topics", "Settings of {topic}", "settings", _settings),
    "/search": Page("/topics", "Search in {topic}", "search", _search, is_live=False),
    "/partition": Page("/topics", "{topic}-{partition}", "partition", _partition),
    "/messages": Page("/topics", "Messages of {topic}-{partition}", "messages", _messages),
    "/producers": Page("/topics", "Producers of {topic}-{partition}", "producers", _producers),
    "/transactions": Page("/transactions", "Transactions", "transactions", _transactions),
    "/transaction": Page("/transactions", "Transaction {id}", "transaction", _transaction),
    "/steps": Page("/steps", "__transaction_state", "steps", _steps),
    "/groups": Page("/groups", "Groups", "groups", _groups),
    "/group": Page("/groups", "Group {id}", "group", _group),
    "/produce": Page("/produce", "Produce", "produce", _produce),
    "/hold": Page("/hold", "Hold", "hold", _hold),
    "/findings": Page("/findings", "Findings", "findings", _findings),
    "/fence": Page("/transactions", "Fence {id}", "fence", _fence, is_live=False),
    "/abort": Page("/topics", "Abort on {topic}-{partition}", "abort", _abort, is_live=False),
}
