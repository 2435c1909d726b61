"""Rewrites the generated parts of docs/understand/architecture.md: state diagrams and the file map.

    python tools/update_architecture.py

A test holds the page to this.
"""

import ast
from pathlib import Path

from oncelog.broker.coordinator import life
from oncelog.broker.coordinator.group import states as group_states
from oncelog.broker.coordinator.transaction import states as transaction_states

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "understand" / "architecture.md"
FOLDERS = (
    "protocol",
    "oncelog/protocol/records",
    "broker",
    "oncelog/broker/net",
    "oncelog/broker/assembly",
    "oncelog/broker/handlers/shared",
    "oncelog/broker/fetching",
    "oncelog/broker/config",
    "oncelog/broker/cluster",
    "oncelog/broker/coordinator",
    "oncelog/broker/coordinator/transaction",
    "oncelog/broker/coordinator/group",
    "oncelog/broker/log",
    "oncelog/broker/storage",
    "oncelog/broker/storage/local",
    "oncelog/broker/storage/local/compaction",
    "oncelog/broker/system",
    "oncelog/broker/observability",
    "oncelog/broker/faults",
    "oncelog/broker/admin",
    "oncelog/client",
    "oncelog/client/admin",
    "oncelog/client/blocking",
    "oncelog/client/consuming",
    "oncelog/client/groups",
    "oncelog/client/options",
    "oncelog/client/producing",
    "oncelog/client/values",
    "oncelog/client/wire",
    "pipeline",
    "oncelog/pipeline/source",
    "oncelog/pipeline/sink",
    "oncelog/pipeline/ledger",
    "oncelog/pipeline/demo",
    "oncelog",
    "oncelog/console",
    "oncelog/tools",
    "oncelog/tools/demo",
    "oncelog/tools/copy",
    "oncelog/tools/adopt",
    "oncelog/tools/graduate",
    "oncelog/tools/log",
    "oncelog/tools/log/dump",
    "oncelog/tools/log/map",
    "oncelog/tools/txn",
)
START = "<!-- from the code: python tools/update_architecture.py -->"


def first_sentence(path: Path) -> str:
    """A file's own description: the first paragraph of its docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[0].split())


def generated() -> str:
    lines = [START, "", "## States", "", "A transactional id, from `oncelog/broker/coordinator/transaction/states.py`:", ""]
    lines += ["```mermaid", transaction_states.mermaid(), "```", ""]
    lines += ["A classic consumer group, from `oncelog/broker/coordinator/group/states.py`:", ""]
    lines += ["```mermaid", group_states.mermaid(), "```", ""]
    lines += ["A partition of a coordinator on a node, from `oncelog/broker/coordinator/life.py`:", ""]
    lines += ["```mermaid", life.mermaid(), "```", ""]
    lines += ["## File map", ""]
    lines += [
        "Besides these: `oncelog/protocol/messages/` and `oncelog/protocol/state_records/` have one declaration per API or record,",
        "`oncelog/protocol/generated/` the codecs made from them, `oncelog/broker/handlers/` one module per API with its contract,",
        "and `refusals.py` for all APIs without an implementation.",
        "",
    ]
    for folder in FOLDERS:
        lines += [f"### {folder}/", ""]
        lines += [
            f"- `{path.name}`: {first_sentence(path)}"
            for path in sorted((ROOT / folder).glob("*.py"))
            if path.name != "__init__.py"
        ]
        lines.append("")
    return "\n".join(lines)


def updated(page: str) -> str:
    """The page with its generated end rewritten."""
    return page.partition(START)[0].rstrip() + "\n\n" + generated()


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
