"""`make pages` writes what pages and pictures have from the code; tests/test_pages.py holds each file to it.

    python -m tools.pages [FILE ...]        files below docs/; without any, all

Owns: which file has what. A block of a page stands between `<!-- begin: make pages, NAME -->` and `<!-- end -->`. What
other commands write, from measurements or a browser, is not here: they name themselves in the same marks.
"""

from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from pathlib import Path

from oncelog.broker.coordinator import life
from oncelog.broker.coordinator.group.classic import states as group_states
from oncelog.broker.coordinator.transaction import states as transaction_states
from oncelog.broker.fetching import states as fetch_states
from oncelog.client import AdminSettings, ConsumerSettings, ProducerSettings, SessionSettings, ShareConsumerSettings
from oncelog.client.wire.security import SecuritySettings
from tools import dashboard, draw_concepts, draw_transactions, install_lines, page_blocks, page_commands
from tools.markers import with_block

DOCS = Path(__file__).resolve().parent.parent / "docs"
COMMAND = "make pages, "
Block = tuple[str, Callable[[], str]]

TEN_TESTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("orders", "billing", ("invoice_of", "outcome")),
    ("service with oncelog", "with_oncelog", ("_serve",)),
    ("service with aiokafka", "with_aiokafka", ("_serve", "Producers")),
    ("service with confluent-kafka", "with_confluent_kafka", ("serve", "_bill_a_batch")),
    ("helpers", "test_ten", ("Pausing", "order", "billed", "done")),
    *(
        (name, "test_ten", (f"test_{function}",))
        for name, function in (
            ("exactly once", "each_order_is_billed_once_though_the_broker_is_killed"),
            ("rebalance", "a_rebalance_in_the_middle_of_a_batch_bills_nothing_twice"),
            ("zombie", "a_zombie_commits_nothing"),
            ("poison record", "a_poison_record_is_put_aside_and_stops_nothing"),
            ("offsets", "offsets_are_committed_with_the_invoices_and_not_beside_them"),
            ("retention", "a_service_that_retention_has_overtaken_goes_on_with_what_is_left"),
            ("slow consumer", "a_slow_consumer_that_has_lost_its_partition_commits_nothing"),
            ("duplicate", "an_invoice_whose_answer_is_lost_is_there_once"),
            ("late broker", "a_service_that_starts_before_the_broker_serves_once_it_is_there"),
            ("schema change", "orders_of_the_next_schema_are_billed_and_of_none_put_aside"),
        )
    ),
)
"""What the page of the ten tests shows of examples/billing: the name of a block, the file, what of it."""

BLOCKS: dict[str, tuple[Block, ...]] = {
    "clients/client-errors.md": (("errors", page_blocks.client_errors),),
    "clients/client-options.md": tuple(
        (f"options of {name}", partial(page_blocks.client_options, kind))
        for name, kind in (
            ("Producer", ProducerSettings),
            ("Consumer", ConsumerSettings),
            ("ShareConsumer", ShareConsumerSettings),
            ("TransactionalSession", SessionSettings),
            ("Admin", AdminSettings),
            ("every client", SecuritySettings),
        )
    ),
    "compare/compatibility.md": (
        ("APIs", page_blocks.apis),
        ("features", page_blocks.features),
        ("defaults that differ", page_blocks.other_defaults),
        ("settings without effect", page_blocks.settings_without_effect),
    ),
    "operate/metrics.md": (("metrics", page_blocks.metrics),),
    "operate/rights.md": (("rights", page_blocks.rights),),
    "operate/security.md": (("bugs of others", page_blocks.known_bugs),),
    "spark/spark-options.md": (
        ("options of reading", partial(page_blocks.spark_options, "read", "readStream")),
        ("options of writing", partial(page_blocks.spark_options, "write", "writeStream")),
    ),
    "spark/spark.md": (("metrics", page_blocks.spark_metrics),),
    "start/command-line.md": (("commands", page_blocks.commands),),
    "start/ten-tests.md": tuple(
        (f"the example's {name}", partial(page_blocks.example, f"billing/{file}.py", *names))
        for name, file, names in TEN_TESTS
    ),
    "understand/architecture.md": tuple(
        (f"states of {name}", partial(lambda mermaid: page_blocks.diagram(mermaid()), mermaid))
        for name, mermaid in (
            ("a transactional id", transaction_states.mermaid),
            ("a classic group", group_states.mermaid),
            ("a coordinator's partition", life.mermaid),
            ("a Fetch", fetch_states.mermaid),
        )
    ),
}
"""Blocks of pages, by their names."""

CONSOLES: dict[str, Callable[[str], str]] = {
    "start/command-line.md": page_commands.command_line,
    "understand/log.md": page_commands.files_of_a_partition,
    "understand/share-groups.md": page_commands.command_line,
}
"""Pages whose commands are run again."""

WHOLE: dict[str, Callable[[], str]] = {
    "grafana/oncelog.json": dashboard.dashboard,
    "images/log_map.svg": page_commands.map_of_a_partition,
    "images/transaction_states.svg": draw_transactions.states_svg,
    **{f"images/{name}": draw for name, draw in draw_concepts.PICTURES.items()},
}
"""Files that are made as a whole."""

FILES = sorted({*BLOCKS, *CONSOLES, *WHOLE})


def updated(file: str, text: str) -> str:
    """The file as it should be."""
    if file in WHOLE:
        return WHOLE[file]()
    for name, write in BLOCKS.get(file, ()):
        text = with_block(text, f"{COMMAND}{name}", write())
    return CONSOLES[file](text) if file in CONSOLES else text


def main() -> None:
    parser = ArgumentParser(prog="python -m tools.pages", description=(__doc__ or "").partition(";")[0])
    every = f"below docs/; without any, all of: {', '.join(FILES)}"
    parser.add_argument("files", nargs="*", metavar="FILE", help=every)
    files = parser.parse_args().files
    if unknown := sorted({*files}.difference(FILES)):
        parser.error(f"nothing is written into {', '.join(unknown)}")
    for file in files or FILES:
        path = DOCS / file
        text = path.read_text(encoding="utf-8")
        wanted = updated(file, text)
        if wanted != text:
            path.write_text(wanted, encoding="utf-8")
            print(f"docs/{file}")
    for path in () if files else install_lines.PAGES:
        text = path.read_text(encoding="utf-8")
        wanted = install_lines.with_install_lines(text)
        if wanted != text:
            path.write_text(wanted, encoding="utf-8")
            print(path.name)


if __name__ == "__main__":
    main()
