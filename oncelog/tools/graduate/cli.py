"""`oncelog graduate`: hand a data directory over to Apache Kafka.

Owns: the options, the table, the question, the exit codes. Does not own: the work (`graduation`, imported when the
command runs). Exit codes: 0 done (or, with --dry-run, possible), 2 not.
"""

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from oncelog.protocol.amounts import size_text
from oncelog.tools.terminal import confirm, fail, say, say_json, say_table, yes_option

if TYPE_CHECKING:
    from oncelog.tools.graduate.graduation import Report, Wish

EXIT_FAILED = 2


@click.command()
@click.argument("data_dir", metavar="DATA_DIR", type=click.Path(path_type=Path))
@click.option("--out", "kafka_dir", metavar="KAFKA_DIR", type=click.Path(path_type=Path), help="A new directory.")
@click.option("--in-place", is_flag=True, help="Make DATA_DIR itself Kafka's; there is no way back.")
@click.option("--copy", "copies", is_flag=True, help="With --out: copy what cannot be hard-linked.")
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The settings that `oncelog serve` was started with.",
)
@click.option("--override", "overrides", metavar="KEY=VALUE", multiple=True, help="One setting; may be repeated.")
@click.option("--controller", metavar="HOST:PORT", help="Kafka's controller. [default: the listener's host, next port]")
@click.option("--dry-run", is_flag=True, help="Report what would be done, and change nothing.")
@yes_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def graduate(
    data_dir: Path,
    kafka_dir: Path | None,
    in_place: bool,
    copies: bool,
    config_file: Path | None,
    overrides: tuple[str, ...],
    controller: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Turn DATA_DIR into a log directory of Apache Kafka 4.3, for when one node is not enough.

    The broker must be stopped. Topics with their ids and settings, records, committed offsets, groups and transactional
    ids go along. Kafka is then started with the server.properties that is written beside the data. With --out closed
    segments are hard links, the last ones are copied, and `oncelog serve` refuses DATA_DIR from then on.
    """
    from oncelog.tools.graduate.graduation import Watcher, preview
    from oncelog.tools.graduate.graduation import graduate as run
    from oncelog.tools.kafka_directory import NotPossible
    from oncelog.tools.kafka_directory.taking import say_copied

    if (kafka_dir is None) != in_place:
        raise click.UsageError("choose one: --out KAFKA_DIR or --in-place.")
    if copies and in_place:
        raise click.UsageError("--copy is for --out: nothing is copied in place.")
    if as_json and in_place and not (yes or dry_run):
        raise click.UsageError("--json cannot ask for confirmation: add --yes or --dry-run.")
    wish = _wish(data_dir, kafka_dir, copies, config_file, overrides, controller)
    watcher = Watcher(
        on_plan=lambda report: _announce(wish, report, as_json=as_json, asks=in_place and not yes), on_copied=say_copied
    )
    try:
        report = preview(wish) if dry_run else run(wish, watcher)
    except NotPossible as error:
        fail(f"{error}.", EXIT_FAILED)
    if as_json:
        say_json(_as_dict(wish, report, is_done=not dry_run))
        return
    if dry_run and report is not None:
        _show(wish, report)
    _show_end(wish, report, is_done=not dry_run)


def _wish(
    data_dir: Path,
    kafka_dir: Path | None,
    copies: bool,
    config_file: Path | None,
    overrides: tuple[str, ...],
    controller: str | None,
) -> "Wish":
    from oncelog.broker.config.listeners import ListenerError, parse_host_port
    from oncelog.broker.config.settings import ConfigError, given_settings, load_config
    from oncelog.tools.graduate.graduation import Wish

    try:
        config, _ = load_config(
            file=config_file,
            overrides=overrides,
            environ=os.environ,
            cli={"log.dirs": str(data_dir)},
            host_name=socket.gethostname,
        )
        given = given_settings(file=config_file, overrides=overrides, environ=os.environ)
        address = None if controller is None else parse_host_port(controller)
    except ConfigError as error:
        fail(f"{error}.", EXIT_FAILED)
    except ListenerError as error:
        fail(f"--controller: {error}.", EXIT_FAILED)
    return Wish(data_dir, config, given, kafka_dir, address, copies)


# --- what is printed --------------------------------------------------------------------------------------------------


def _announce(wish: "Wish", report: "Report", *, as_json: bool, asks: bool) -> None:
    if not as_json:
        _show(wish, report)
    if asks:
        say()
        question = "Make it a directory of Apache Kafka, which oncelog cannot serve any more?"
        confirm(question, yes=False, is_always_asked=True)


def _show(wish: "Wish", report: "Report") -> None:
    say_table(_rows(wish, report), ends_in_prose=True)


def _rows(wish: "Wish", report: "Report") -> list[dict[str, Any]]:
    from oncelog.tools.graduate.files import Role
    from oncelog.tools.kafka_directory.bootstrap import feature_levels
    from oncelog.tools.kafka_directory.taking import rows_of_state

    source = report.source
    state = source.state
    topics = state.topics.values()
    partitions = sum(topic.partition_count for topic in topics)
    (closed, closed_bytes), (growing, growing_bytes) = report.count(Role.CLOSED), report.count(Role.GROWING)
    (ours, _), (unknown, _) = report.count(Role.OURS), report.count(Role.UNKNOWN)
    in_place = wish.kafka_dir is None
    linked = "stay where they are" if in_place else "are copied" if wish.copies else "are hard links"
    own_levels = {name: level for name, level in feature_levels(state.features).items() if name in state.features}
    left = [*report.settings_left, *report.stored_settings_left]
    rows: list[tuple[str, int, str]] = [
        *rows_of_state(
            state, topics, ("partitions", partitions, "go along, with their offsets"), source.count_of, own_levels
        ),
        ("files of closed segments", closed, f"{linked}: {size_text(closed_bytes)}"),
        ("files that grow", growing, f"{'stay' if in_place else 'are copied'}: {size_text(growing_bytes)}"),
        ("own files", ours, f"{'are removed' if in_place else 'are left out'}: Kafka has its own for these"),
        ("unknown files", unknown, "stay" if in_place else "are left out"),
        ("settings without meaning there", len(left), f"are left out: {', '.join(left)}"),
        *(("left to you", 1, sentence) for sentence in report.by_hand),
    ]
    return [{"WHAT": what, "COUNT": count, "IN APACHE KAFKA": outcome} for what, count, outcome in rows if count]


def _show_end(wish: "Wish", report: "Report | None", *, is_done: bool) -> None:
    from oncelog.tools.graduate.settings import PROPERTIES

    kafka_dir = wish.kafka_dir or wish.data_dir
    say()
    if is_done:
        say(f"{kafka_dir} is a directory of Apache Kafka 4.3. Start it:")
        say(f"kafka-server-start.sh {kafka_dir / PROPERTIES}")
        if wish.kafka_dir is not None:
            say(f"`oncelog serve` refuses {wish.data_dir} now; delete it once Kafka serves.")
    elif report is None:
        say(f"{wish.data_dir} is half-way to a directory of Apache Kafka; without --dry-run this completes it.")
    else:
        say("Nothing was changed.")


def _as_dict(wish: "Wish", report: "Report | None", *, is_done: bool) -> dict[str, Any]:
    from oncelog.tools.graduate.files import Role
    from oncelog.tools.graduate.settings import PROPERTIES

    answer: dict[str, Any] = {
        "data_dir": str(wish.data_dir),
        "kafka_dir": str(wish.target),
        "server_properties": str(wish.target / PROPERTIES),
        "done": is_done,
        "completed_an_earlier_one": is_done and report is None,
    }
    if report is None:
        return answer
    source = report.source
    for role in Role:
        count, size_bytes = report.count(role)
        answer[f"{role.value}_files"] = {"count": count, "bytes": size_bytes}
    return answer | {
        "cluster_id": source.cluster_id,
        "node_id": source.node_id,
        "topics": len(source.state.topics),
        "partitions": sum(topic.partition_count for topic in source.state.topics.values()),
        "next_producer_id": source.state.next_producer_id,
        "settings_left": list(report.settings_left),
        "stored_settings_left": list(report.stored_settings_left),
        "by_hand": list(report.by_hand),
    }
