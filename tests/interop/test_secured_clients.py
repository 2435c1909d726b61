"""Every client over SASL_SSL, by every mechanism that it has, with exactly the rights that its work needs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pytest

from oncelog.client import Acl, NewTopic
from oncelog.sync import Admin
from tests.support.foreign.interop import QUICK_GROUPS, unique
from tests.support.security import secured_jobs
from tests.support.security.secure_clients import Security
from tests.support.security.secured import PASSWORD, Secured, secured
from tests.support.security.secured_jobs import InJava, Job, Scene, Work

KIP_848: Scene = "consume by KIP-848"
TOKEN = "delegation token"
"""A login by SCRAM-SHA-256, by which a program logs in as the user that made the token."""
PASSWORDS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
IN_JAVA = InJava()


Right = tuple[str, str]
"""Type of a resource, operation."""
WRITE, READ, IN_GROUP, IN_TRANSACTION = (
    ("TOPIC", "WRITE"),
    ("TOPIC", "READ"),
    ("GROUP", "READ"),
    ("TRANSACTIONAL_ID", "WRITE"),
)
RIGHTS: dict[Scene, tuple[Right, ...]] = {
    "produce": (WRITE,),
    "transaction": (IN_TRANSACTION, WRITE),
    "consume": (READ, IN_GROUP),
    KIP_848: (READ, IN_GROUP),
}
LACKING = tuple((scene, right) for scene, rights in RIGHTS.items() for right in rights)
OURS = "ours-"
"""The rules are about names with this prefix."""


@dataclass(frozen=True, slots=True)
class Client:
    name: str
    work: Work
    mechanisms: tuple[str, ...] = (*PASSWORDS, "OAUTHBEARER")
    has_kip_848: bool = False
    quirks: Mapping[tuple[Scene, Right], str] = field(default_factory=dict)
    """Its own error in the place of the protocol's, on Kafka as here; WAITS: none, ever."""

    @property
    def scenes(self) -> tuple[Scene, ...]:
        return tuple(scene for scene in RIGHTS if scene != KIP_848 or self.has_kip_848)


WAITS = ""
NO_COORDINATOR = "KafkaJSGroupCoordinatorNotFound"
CLIENTS = (
    Client("Java", IN_JAVA, (*PASSWORDS, "OAUTHBEARER", TOKEN), has_kip_848=True),
    Client("franz-go", secured_jobs.in_go, (*PASSWORDS, "OAUTHBEARER", TOKEN), has_kip_848=True),
    Client(
        "KafkaJS",
        secured_jobs.in_node,
        quirks={("transaction", IN_TRANSACTION): NO_COORDINATOR, ("consume", IN_GROUP): NO_COORDINATOR},
    ),
    Client("librdkafka", secured_jobs.confluent, has_kip_848=True),
    Client("aiokafka", secured_jobs.aiokafka),
    Client("kafka-python", secured_jobs.kafka_python, quirks={("consume", READ): WAITS}),
    Client("oncelog", secured_jobs.oncelog, (*PASSWORDS, "OAUTHBEARER", TOKEN), has_kip_848=True),
)


def user_of(scene: Scene, lacking: Right | None = None) -> str:
    """The name of the user who has all the rights that the scene needs, but this one."""
    words = (*scene.split(), *(("without", *lacking) if lacking is not None else ()))
    return "-".join(words)


HERE = pytest.param("oncelog", marks=pytest.mark.interop)


@pytest.fixture(scope="module", params=[HERE, pytest.param("kafka", marks=pytest.mark.kafka)])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    users = {user_of(scene): rights for scene, rights in RIGHTS.items()}
    for scene, lacking in LACKING:
        users[user_of(scene, lacking)] = tuple(right for right in RIGHTS[scene] if right != lacking)
    settings = (
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:ANONYMOUS",
        "delegation.token.secret.key=some-long-random-text",
        *QUICK_GROUPS,
    )
    rules = [
        Acl(f"User:{user}", operation, resource, OURS, pattern_type="PREFIXED")
        for user, rights in users.items()
        for resource, operation in rights
    ]
    # Who may write nowhere may not be idempotent, either: this is about the topic.
    elsewhere = [Acl(f"User:{user}", "WRITE", "TOPIC", "elsewhere") for user in users if user.endswith("TOPIC-WRITE")]
    directory = tmp_path_factory.mktemp(request.param)
    with secured(request.param, directory, *settings, users=list(users)) as running:
        with Admin(running.addresses["PLAINTEXT"]) as admin:
            admin.create_acls(*rules, *elsewhere)
        yield running
    IN_JAVA.stop()


@pytest.fixture
def topic(broker: Secured) -> str:
    name = unique(f"{OURS}topic")
    with Admin(broker.addresses["PLAINTEXT"]) as admin:
        admin.create_topics(NewTopic(name, 1, 1))
    return name


def security_of(broker: Secured, mechanism: str, user: str) -> Security:
    token = broker.token(3_600, user) if mechanism == "OAUTHBEARER" else ""
    return Security("SASL_SSL", broker.certificates.authority, "", mechanism, user, PASSWORD, token)


def job_of(broker: Secured, scene: Scene, topic: str, security: Security) -> Job:
    address, name = broker.addresses["SASL_SSL"], unique(f"{OURS}name")
    return Job(scene=scene, bootstrap=address, security=security, topic=topic, name=name, value=scene, count=2)


def delegated(work: Work, job: Job) -> Job:
    """Return the job with a delegation token that its user creates."""
    answer, *token = work(replace(job, scene="delegate")).split(" ", 2)
    assert answer == "ok", token
    return replace(job, security=replace(job.security, user=token[0], password=token[1], is_delegated=True))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("broker", [HERE], indirect=True, scope="module")
@pytest.mark.parametrize(
    ("client", "mechanism"),
    [
        pytest.param(client, mechanism, id=f"{client.name}, {mechanism}")
        for client in CLIENTS
        for mechanism in client.mechanisms
    ],
)
def test_a_client_with_exactly_its_rights_produces_commits_and_consumes_in_a_group(
    broker: Secured, topic: str, client: Client, mechanism: str, record_property: Callable[[str, object], None]
) -> None:
    record_property("secured", f"{client.name}, {mechanism}")
    answers = {}
    for scene in client.scenes:
        security = security_of(broker, "SCRAM-SHA-256" if mechanism == TOKEN else mechanism, user_of(scene))
        job = job_of(broker, scene, topic, security)
        answers[scene] = client.work(delegated(client.work, job) if mechanism == TOKEN else job)
    read = {scene: "ok produce transaction" for scene in client.scenes if scene.startswith("consume")}
    assert answers == {"produce": "ok", "transaction": "ok", **read}


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("client", "scene", "lacking"),
    [
        pytest.param(client, scene, lacking, id=f"{client.name}, {scene}, {' '.join(lacking)}")
        for client in CLIENTS
        for scene, lacking in LACKING
        if scene in client.scenes and client.quirks.get((scene, lacking)) != WAITS
    ],
)
def test_a_client_without_one_of_its_rights_says_which(
    broker: Secured, topic: str, client: Client, scene: Scene, lacking: Right
) -> None:
    security = security_of(broker, client.mechanisms[1], user_of(scene, lacking))
    answer = client.work(job_of(broker, scene, topic, security))
    expected = client.quirks.get((scene, lacking), f"{lacking[0]}_AUTHORIZATION_FAILED")
    assert answer.partition(":")[0] == expected, answer
