"""Bugs that other brokers and clients had, and the tests here that would fail with them: a table of
docs/operate/security.md.

Owns: the table. A test holds each row to its tests: they exist, and name every bug of the row.
"""

from typing import NamedTuple


class KnownBug(NamedTuple):
    what: str
    names: tuple[str, ...]
    """CVEs, issues of projects, KIPs, or whose bug it is."""
    tests: tuple[str, ...]
    """FILE::FUNCTION, below tests/."""


_LOGIN, _SCRAM, _TOKEN = "unit/net/test_login.py", "unit/security/test_scram.py", "unit/security/test_oauthbearer.py"
_OTHER, _CLIENT = "unit/security/test_known_bugs.py", "unit/client"

KNOWN_BUGS: tuple[KnownBug, ...] = (
    KnownBug(
        "the broker does not compare the last nonce of SCRAM, or compares another one",
        ("CVE-2024-56128", "librdkafka#4895"),
        (f"{_SCRAM}::test_every_other_login_fails_at_the_second_message_with_one_text",),
    ),
    KnownBug(
        "a user acts as another by the authorization id",
        ("CVE-2017-12610",),
        (
            f"{_LOGIN}::test_unknown_users_wrong_passwords_and_other_identities_get_the_same_error",
            f"{_SCRAM}::test_every_other_login_fails_at_the_second_message_with_one_text",
        ),
    ),
    KnownBug(
        "a login tells which users exist",
        ("kroxylicious#4683",),
        (
            f"{_SCRAM}::test_an_unknown_user_is_challenged_like_the_known_ones_and_each_time_the_same",
            f"{_SCRAM}::test_every_other_login_fails_at_the_second_message_with_one_text",
        ),
    ),
    KnownBug(
        "a client computes as many iterations of SCRAM as any server asks for",
        ("kafka-python#3026",),
        (
            f"{_CLIENT}/test_scram.py::test_no_server_chooses_how_weak_the_proof_is_or_how_long_it_takes",
            f"{_OTHER}::test_no_credential_makes_clients_compute_for_long",
        ),
    ),
    KnownBug(
        "what is announced before a login is allocated, or read whatever its size",
        ("CVE-2022-34917", "kafka-python#3014"),
        (
            f"{_LOGIN}::test_a_request_above_the_limit_closes_a_connection_before_its_login_and_takes_no_memory",
            "daemon/test_half_open.py::test_the_memory_of_the_broker_stays_flat",
            f"{_CLIENT}/test_connection.py::test_a_server_that_has_proved_nothing_cannot_fill_the_memory",
            f"{_CLIENT}/test_login.py::test_until_the_login_is_over_the_broker_has_proved_nothing",
        ),
    ),
    KnownBug(
        "both sides choose a version of the handshake that one of them cannot write",
        ("KAFKA-9577", "sarama#1992"),
        (
            f"{_LOGIN}::test_versions_of_the_handshake_are_those_that_old_clients_can_choose",
            f"{_LOGIN}::test_a_user_of_scram_logs_in_with_the_keys_in_the_metadata_log",
            f"{_CLIENT}/test_login.py::"
            "test_what_a_broker_offers_beyond_the_known_versions_of_the_handshake_is_not_chosen",
        ),
    ),
    KnownBug(
        "a second login on a connection is refused, or changes who it is",
        ("nisshi#665", "KIP-368"),
        (
            f"{_LOGIN}::test_without_sessions_a_second_handshake_is_refused_and_the_connection_continues",
            f"{_LOGIN}::test_a_login_that_begins_while_a_fetch_waits_comes_after_it",
            f"{_LOGIN}::test_another_user_is_refused",
            f"{_LOGIN}::test_another_mechanism_is_refused",
        ),
    ),
    KnownBug(
        "requests are served before the login is over",
        ("redpanda#1331", "bitnami/charts#25129"),
        (f"{_LOGIN}::test_before_the_login_no_request_is_answered_but_for_the_three_in_their_states",),
    ),
    KnownBug(
        "an API, or a version of one, is not checked for rights",
        ("CVE-2018-17196", "CVE-2023-50976", "CVE-2018-1288"),
        (
            f"{_OTHER}::test_transactional_records_need_the_right_on_their_id_whatever_the_request_says",
            f"{_OTHER}::test_no_request_about_transactions_does_anything_without_its_right",
            f"{_OTHER}::test_a_reader_that_calls_itself_a_replica_reads_nothing_and_moves_nothing",
        ),
    ),
    KnownBug(
        "a rule is overlooked: of a prefix, behind another one, or of all operations",
        ("KAFKA-14265", "KAFKA-13697"),
        (
            "unit/security/test_authorizer.py::test_every_decision_is_the_naive_ones_after_every_change",
            "unit/security/test_authorizer.py::test_a_prefix_is_not_hidden_by_another_one_between",
        ),
    ),
    KnownBug(
        "a token is accepted that its issuer has not made for this broker",
        ("CVE-2022-29217", "CVE-2024-53861", "CVE-2025-27817"),
        (f"{_TOKEN}::test_any_other_token_is_refused_without_a_reason",),
    ),
    KnownBug(
        "a name forges a line of the log, or steers a terminal",
        ("Kafka's audit log",),
        (
            "unit/observability/test_audit.py::test_no_name_forges_a_line",
            "unit/observability/test_logging.py::test_no_name_steers_a_terminal_or_forges_a_line",
        ),
    ),
    KnownBug(
        "a setting names a class that is loaded, or an address that is called",
        ("CVE-2023-25194", "CVE-2025-27818"),
        (f"{_OTHER}::test_no_setting_names_a_class_that_is_loaded",),
    ),
    KnownBug(
        "a producer's buffer is used again while it is being sent, and records come to another topic",
        ("CVE-2026-35554",),
        (f"{_CLIENT}/test_accumulator.py::test_what_is_being_sent_changes_no_more_whatever_becomes_of_its_batch",),
    ),
)
