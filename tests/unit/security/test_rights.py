"""Requests of a client without rights reach no handler; what is forbidden does not show."""

from oncelog.broker.api_table import API_TABLE
from oncelog.broker.handlers.rights.table import RIGHTS


def test_every_api_has_a_row() -> None:
    assert RIGHTS.keys() == API_TABLE.keys()


def test_a_row_without_rights_says_why() -> None:
    assert [api.name for api, rights in RIGHTS.items() if bool(rights.all) == bool(rights.free)] == []
