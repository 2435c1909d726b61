"""Rewrites the generated parts of docs/understand/architecture.md: the state diagrams.

    python tools/update_architecture.py

A test holds the page to this.
"""

from pathlib import Path

from oncelog.broker.coordinator import life
from oncelog.broker.coordinator.group import states as group_states
from oncelog.broker.coordinator.transaction import states as transaction_states

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "understand" / "architecture.md"
START = "<!-- from the code: python tools/update_architecture.py -->"


def generated() -> str:
    lines = [START, "", "## States", "", "A transactional id, from `oncelog/broker/coordinator/transaction/states.py`:", ""]
    lines += ["```mermaid", transaction_states.mermaid(), "```", ""]
    lines += ["A classic consumer group, from `oncelog/broker/coordinator/group/states.py`:", ""]
    lines += ["```mermaid", group_states.mermaid(), "```", ""]
    lines += ["A partition of a coordinator on a node, from `oncelog/broker/coordinator/life.py`:", ""]
    lines += ["```mermaid", life.mermaid(), "```", ""]
    return "\n".join(lines)


def updated(page: str) -> str:
    """The page with its generated end rewritten."""
    return page.partition(START)[0].rstrip() + "\n\n" + generated()


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
