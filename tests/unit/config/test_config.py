"""Settings: their sources, their order, and what happens to names that have no effect here."""

import re
from pathlib import Path

import pytest

from oncelog.broker.config.broker_keys import BROKER_KEYS
from oncelog.broker.config.config_key import ConfigType
from oncelog.broker.config.kafka_names import REMOVED, UNNEEDED, UNNEEDED_KEYS
from oncelog.broker.config.settings import (
    BrokerConfig,
    ConfigError,
    Origin,
    environment_key,
    given_settings,
    load_config,
)
from oncelog.broker.config.topic_keys import TOPIC_CONFIGS
from oncelog.protocol.names import owner_of


def _load(*overrides: str, **variables: str) -> BrokerConfig:
    return load_config(overrides=overrides, environ=variables)[0]


def _refused(*overrides: str, **variables: str) -> str:
    with pytest.raises(ConfigError) as caught:
        _load(*overrides, **variables)
    return str(caught.value)


def test_the_defaults_need_nothing_and_listen_on_loopback_alone() -> None:
    config, warnings = load_config()
    assert warnings == []
    assert [(listener.host, listener.port) for listener in config.listeners] == [("127.0.0.1", 9092)]
    assert config.data_dir == Path("oncelog-data")
    assert config.get_int("node.id") == 1
    assert config.get_str("oncelog.flush.policy") == "fsync"


def test_every_default_passes_its_own_check() -> None:
    for key in BROKER_KEYS.values():
        if key.default is not None:
            assert key.check(key.default) == key.default, key.name


def _given(name: str, value: str, directory: Path, *, in_file: bool) -> list[str]:
    """Load a setting from a file, or from the command line, and return the warnings."""
    if not in_file:
        return load_config(overrides=[f"{name}={value}"])[1]
    file = directory / "server.properties"
    file.write_text(f"{name}={value}\n")
    return load_config(file=file)[1]


@pytest.mark.parametrize("in_file", [True, False])
def test_a_value_that_kafka_refuses_ends_the_start_though_the_setting_has_no_effect(
    tmp_path: Path, in_file: bool
) -> None:
    """The error names the setting, the value, where it is from, and what is allowed; the least allowed is accepted."""
    numbers = [key for key in UNNEEDED_KEYS.values() if key.type in (ConfigType.INT, ConfigType.LONG, ConfigType.SHORT)]
    assert len(numbers) > 100
    for key in numbers:
        refused = [("abc", f"Not a number of type {key.type.name}")]
        if key.minimum is not None:
            refused.append((str(int(key.minimum) - 1), f"Value must be at least {key.minimum}"))
            _given(key.name, str(key.minimum), tmp_path, in_file=in_file)
        for value, why in refused:
            where = str(tmp_path / "server.properties") if in_file else "--override"
            with pytest.raises(ConfigError) as error:
                _given(key.name, value, tmp_path, in_file=in_file)
            assert str(error.value) == f"{key.name} is {value!r} (from {where}): {why}"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("auto.leader.rebalance.enable", "maybe", "Expected value to be either true or false"),
        ("log.cleaner.io.buffer.load.factor", "much", "Not a number of type DOUBLE"),
        ("early.start.listeners", "A,,B", "Configuration 'early.start.listeners' values must not be empty."),
        ("process.roles", "leader", "String must be one of: broker, controller"),
        ("remote.log.metadata.manager.impl.prefix", "", "String must be non-empty"),
        ("sasl.oauthbearer.assertion.claim.exp.seconds", "86401", "Value must be no more than 86400"),
        ("group.coordinator.rebalance.protocols", "consumer", "Disabling the 'classic' protocol is not supported."),
        ("group.coordinator.rebalance.protocols", "", "Disabling the 'classic' protocol is not supported."),
        ("group.coordinator.rebalance.protocols", "classic,raft", "must be one of: consumer, classic, share, streams"),
    ],
)
def test_a_value_of_any_type_is_checked_as_kafka_checks_it(name: str, value: str, why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        load_config(overrides=[f"{name}={value}"])


def test_a_rate_without_a_limit_is_a_number_as_in_java() -> None:
    load_config(overrides=["log.cleaner.io.max.bytes.per.second=Infinity"])
    with pytest.raises(ConfigError, match="Not a number"):
        load_config(overrides=["log.cleaner.io.max.bytes.per.second=inf"])


@pytest.mark.parametrize("value", ["UPGRADE", "Upgrade"])
def test_choices_may_be_written_in_any_case_where_kafka_takes_them_so(value: str) -> None:
    assert _load(f"group.consumer.migration.policy={value}").get_str("group.consumer.migration.policy") == value


def test_no_name_stands_in_two_tables() -> None:
    assert not BROKER_KEYS.keys() & UNNEEDED
    assert not BROKER_KEYS.keys() & REMOVED.keys()
    assert not UNNEEDED & REMOVED.keys()


def test_the_command_line_wins_over_environment_over_file_over_default(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nlog.retention.hours=2\nmessage.max.bytes=2\n")
    config, _ = load_config(
        file=file,
        environ={"KAFKA_NUM_PARTITIONS": "3", "KAFKA_LOG_RETENTION_HOURS": "3"},
        overrides=["num.partitions=4", "log.dirs=/four"],
        cli={"log.dirs": "/five"},
    )
    assert config.get_int("num.partitions") == 4
    assert config.get_int("log.retention.hours") == 3
    assert config.get_int("message.max.bytes") == 2
    assert config.get_int("group.max.session.timeout.ms") == 1_800_000
    assert config.data_dir == Path("/five")
    origins = [config.origin(key) for key in ("num.partitions", "log.retention.hours", "message.max.bytes", "node.id")]
    assert origins == [Origin.COMMAND_LINE, Origin.ENVIRONMENT, Origin.FILE, Origin.DEFAULT]


@pytest.mark.parametrize("given", [None, "false", "true"])
def test_what_was_said_about_writing_counts_more_than_how_the_directory_was_made(given: str | None) -> None:
    config = _load(*([] if given is None else [f"oncelog.read.only={given}"]), "auto.create.topics.enable=true")
    suited = config.read_only_by_default("adopted")
    assert suited.get_str("oncelog.read.only") == (given or "true")
    assert suited.get_bool("auto.create.topics.enable") is (given == "false")


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_NUM_PARTITIONS", "num.partitions"),
        ("KAFKA_CFG_NUM_PARTITIONS", "num.partitions"),
        ("KAFKA_ABC__DEF", "abc_def"),
        ("KAFKA_ABC___DEF", "abc-def"),
        ("KAFKA_LISTENER_NAME_A___B_SSL_KEY", "listener.name.a-b.ssl.key"),
    ],
)
def test_a_variable_means_the_key_that_it_means_to_the_kafka_image(variable: str, key: str) -> None:
    assert environment_key(variable) == key


def test_variables_of_start_scripts_and_of_kubernetes_are_no_settings() -> None:
    config, warnings = load_config(
        environ={
            "KAFKA_HEAP_OPTS": "-Xmx1g",
            "KAFKA_ENABLE_KRAFT": "yes",
            "KAFKA_SKIP_KRAFT_STORAGE_INIT": "true",
            "KAFKA_OPTS": "x",
            "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN",
            "KAFKA_JMX_PORT": "9999",
            "KAFKA_VERSION": "4.3.0",
            "KAFKA_BOOTSTRAP_SERVERS": "elsewhere:9092",
            "KAFKA_PORT": "tcp://10.0.0.1:9092",
            "KAFKA_PORT_9092_TCP": "tcp://10.0.0.1:9092",
            "KAFKA_PORT_9092_TCP_PROTO": "tcp",
            "KAFKA_SERVICE_HOST": "10.0.0.1",
            "KAFKA_SERVICE_PORT_CLIENT": "9092",
            "PATH": "/bin",
        }
    )
    assert warnings == []
    assert config.origin("node.id") is Origin.DEFAULT


def test_the_cluster_id_comes_from_its_own_variable() -> None:
    assert _load(CLUSTER_ID="4L6g3nShT-eMCtK--X86sw").get_str("cluster.id") == "4L6g3nShT-eMCtK--X86sw"


def test_a_compose_service_written_for_kafka_starts_with_one_warning() -> None:
    config, warnings = load_config(
        host_name=lambda: "kafka",
        environ={
            "KAFKA_NODE_ID": "7",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_LISTENERS": "PLAINTEXT://:19092,CONTROLLER://:9093,PLAINTEXT_HOST://0.0.0.0:9092",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka:19092,PLAINTEXT_HOST://localhost:9092",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PLAINTEXT_HOST:PLAINTEXT"
            ),
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "7@kafka:9093",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
            "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
            "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "KAFKA_NUM_PARTITIONS": "3",
            "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
            "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
        },
    )
    assert len(warnings) == 1
    for name in ("process.roles", "controller.quorum.voters", "inter.broker.listener.name"):
        assert name in warnings[0]
    assert "replication.factor" not in warnings[0]
    told = [(item.name, item.host, item.port, item.advertised_host, item.advertised_port) for item in config.listeners]
    assert told == [
        ("PLAINTEXT", "", 19092, "kafka", 19092),
        ("PLAINTEXT_HOST", "0.0.0.0", 9092, "localhost", 9092),
    ]


def test_a_file_from_the_years_of_zookeeper_starts_with_a_warning_that_says_so() -> None:
    _, warnings = load_config(overrides=["zookeeper.connect=zk:2181", "broker.id=0", "log.message.format.version=2.8"])
    assert len(warnings) == 1
    assert "zookeeper.connect" in warnings[0]


def test_a_replication_factor_above_one_is_named_in_the_warning() -> None:
    _, warnings = load_config(overrides=["offsets.topic.replication.factor=3"])
    assert warnings == ["accepted without effect, not needed on one node: offsets.topic.replication.factor"]


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("num.partitons", "num.partitions"),
        ("transaction.max.timeout", "transaction.max.timeout.ms"),
        ("oncelog.flush", "oncelog.flush.policy"),
        ("advertised.listener", "advertised.listeners"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_and_its_place(wrong: str, nearest: str) -> None:
    message = _refused(f"{wrong}=1")
    assert message == f"unknown setting {wrong} (from --override): the nearest name is {nearest}"


def test_a_name_like_no_other_is_refused_without_a_nearest() -> None:
    wanted = "unknown setting foo (from --override): docs/start/configuration.md lists those there are"
    assert _refused("foo=bar") == wanted


@pytest.mark.parametrize(
    ("name", "owner"), [("max.request.size", "a producer"), ("max.poll.records", "a consumer"), ("retries", "a client")]
)
def test_a_clients_setting_among_the_brokers_is_named_as_such(name: str, owner: str) -> None:
    assert _refused(f"{name}=1").endswith(f": it is a setting of {owner}, not of the broker")


def test_no_setting_of_the_broker_or_of_topics_counts_as_a_clients() -> None:
    assert not [name for name in (*BROKER_KEYS, *UNNEEDED, *REMOVED, *TOPIC_CONFIGS) if owner_of(name)]


def test_a_topic_setting_among_the_brokers_is_answered_with_the_brokers_name() -> None:
    assert "the broker's is log.retention.ms" in _refused("retention.ms=1")


def test_an_unknown_variable_is_a_warning_as_in_kafka() -> None:
    _, warnings = load_config(environ={"KAFKA_KRAFT_ENABLED": "true", "KAFKA_RETENTION_MS": "1"})
    assert warnings == [
        "accepted without effect, unknown setting kraft.enabled (from KAFKA_KRAFT_ENABLED): "
        "docs/start/configuration.md lists those there are",
        "accepted without effect, unknown setting retention.ms (from KAFKA_RETENTION_MS): "
        "it is a topic setting; the broker's is log.retention.ms",
    ]


def test_an_unknown_name_in_a_file_is_a_warning_as_in_kafka(tmp_path: Path) -> None:
    """Each with its nearest name, and all that is known has its effect."""
    file = tmp_path / "server.properties"
    file.write_text("num.partitons=5\nno.such.plugin\\ key=x\nmax.poll.records=1\nnum.partitions=3\n")
    config, warnings = load_config(file=file)
    assert warnings == [
        f"accepted without effect, unknown setting num.partitons (from {file}): the nearest name is num.partitions",
        f"accepted without effect, unknown setting no.such.plugin key (from {file}): "
        "docs/start/configuration.md lists those there are",
        f"accepted without effect, unknown setting max.poll.records (from {file}): "
        "it is a setting of a consumer, not of the broker",
    ]
    assert config.get_int("num.partitions") == 3


@pytest.mark.parametrize("text", [b"\xef\xbb\xbfnum.partitions=3\n", b"num.partitions=3\r\nnode.id\\\r\n = 1\r\n"])
def test_a_file_may_come_from_windows(tmp_path: Path, text: bytes) -> None:
    """With a byte order mark, or with lines that end in CR LF, after a backslash too."""
    file = tmp_path / "server.properties"
    file.write_bytes(text)
    config, warnings = load_config(file=file)
    assert (config.get_int("num.partitions"), config.get_int("node.id"), warnings) == (3, 1, [])


def test_the_command_line_over_a_file_refuses_the_same_name(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitons=5\n")
    with pytest.raises(ConfigError, match=r"unknown setting num\.partitons"):
        load_config(file=file, overrides=["num.partitons=5"])


def test_a_file_may_not_misspell_what_only_this_broker_has(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("oncelog.flush=os\n")
    with pytest.raises(ConfigError, match=r"nearest name is oncelog\.flush\.policy"):
        load_config(file=file)


def test_a_variable_for_this_broker_alone_is_spelled_correctly_or_refused() -> None:
    message = _refused(KAFKA_ONCELOG_FLUSH="os")
    assert (
        message == "unknown setting oncelog.flush (from KAFKA_ONCELOG_FLUSH): the nearest name is oncelog.flush.policy"
    )


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("num.partitions=abc", "Not a number of type INT"),
        ("num.partitions=0", "at least 1"),
        ("num.partitions=1_000", "Not a number of type INT"),
        ("num.partitions=", "Not a number of type INT"),
        ("num.partitions=3000000000", "Not a number of type INT"),
        ("auto.create.topics.enable=yes", "true or false"),
        ("log.cleaner.min.cleanable.ratio=nan", "Not a number of type DOUBLE"),
        ("log.cleaner.min.cleanable.ratio=1.5", "no more than 1"),
        ("log.cleanup.policy=delete,burn", "one of: compact, delete"),
        ("oncelog.flush.policy=never", "one of: fsync, os, memory"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_with_key_place_and_rule(override: str, problem: str) -> None:
    message = _refused(override)
    assert problem in message
    assert override.partition("=")[0] in message
    assert "--override" in message


def test_an_empty_variable_unsets_a_setting_that_has_no_default() -> None:
    assert _load(KAFKA_LOG_RETENTION_MS="").get("log.retention.ms") is None


@pytest.mark.parametrize("text", ["num.partitions", "=3", ""])
def test_an_override_without_key_or_value_is_refused(text: str) -> None:
    assert "key=value" in _refused(text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.properties"):
        load_config(file=tmp_path / "none.properties")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_config(file=tmp_path / "x")


def test_the_older_name_of_the_node_id_works_and_may_not_contradict() -> None:
    assert _load("broker.id=5").get_int("node.id") == 5
    assert _load("broker.id=5", "node.id=5").get_int("node.id") == 5
    assert "broker.id" in _refused("broker.id=5", "node.id=6")


def test_only_one_data_directory_is_possible() -> None:
    assert _load("log.dir=/a").data_dir == Path("/a")
    assert _load("log.dir=/a", "log.dirs=/b").data_dir == Path("/b")
    assert "2 directories" in _refused("log.dirs=/a,/b")


def test_the_otlp_endpoint_is_a_url() -> None:
    url = "http://localhost:4318/v1/metrics"
    assert _load(f"oncelog.otlp.endpoint={url}").get("oncelog.otlp.endpoint") == url
    for text in ("localhost:4318", "ftp://localhost", "http:///v1/metrics"):
        assert "must be a URL" in _refused(f"oncelog.otlp.endpoint={text}")


def test_the_statsd_address_is_checked_at_the_start() -> None:
    assert _load("oncelog.statsd.address=localhost:8125").statsd_address == ("localhost", 8125)
    assert _load("oncelog.statsd.address=[::1]:8125").statsd_address == ("::1", 8125)
    assert _load().statsd_address is None
    assert "HOST:PORT" in _refused("oncelog.statsd.address=localhost")


def test_asking_for_a_name_without_a_table_entry_is_a_mistake_of_the_program() -> None:
    with pytest.raises(KeyError):
        _load().get_int("num.partitons")


def test_values_come_in_the_type_of_their_key() -> None:
    config = _load("num.partitions= +7 ", "auto.create.topics.enable=FALSE", "log.cleanup.policy=compact, delete")
    assert config.get_int("num.partitions") == 7
    assert config.get_bool("auto.create.topics.enable") is False
    assert config.get_list("log.cleanup.policy") == ["compact", "delete"]


@pytest.mark.parametrize("variable", ["CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID"])
def test_the_cluster_id_has_the_variable_of_each_image(variable: str) -> None:
    config, warnings = load_config(environ={variable: "4L6g3nShT-eMCtK--X86sw"})
    assert (config.get("cluster.id"), warnings) == ("4L6g3nShT-eMCtK--X86sw", [])


def test_the_authorizer_of_files_before_kafka_4_is_used_under_its_present_name() -> None:
    present = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    given = given_settings(environ={"KAFKA_AUTHORIZER_CLASS_NAME": "kafka.security.authorizer.AclAuthorizer"})
    assert given == {"authorizer.class.name": present}
