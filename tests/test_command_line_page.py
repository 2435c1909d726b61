"""docs/start/command-line.md lists the commands there are, and shows what they print today."""

from tools import update_command_line_page


def test_the_page_is_what_the_commands_give() -> None:
    page = update_command_line_page.PAGE.read_text(encoding="utf-8")
    assert update_command_line_page.updated(page) == page, "run PYTHONPATH=. python tools/update_command_line_page.py"
