package oncelog.kafkatests;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ReplicaInfo;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.security.CredentialProvider;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What a client learns about a node by the protocol, where tests ask Kafka's own metadata for it. */
final class Outside {
    private static final Pattern USER = Pattern.compile("(SCRAM[^=]*)=\\[name=(.*),password=(.*)\\]");

    private static final List<String> MECHANISMS = List.of("SCRAM-SHA-256", "SCRAM-SHA-512");

    private final Node node;

    Outside(Node node) {
        this.node = node;
    }

    interface Question<T> {
        T ask(Admin admin) throws ExecutionException, InterruptedException;
    }

    <T> T ask(Question<T> question) {
        try (Admin admin = Admin.create(node.outside())) {
            return question.ask(admin);
        } catch (ExecutionException error) {
            throw new IllegalStateException(error.getCause());
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
    }

    /** Returns the error of a request, if it has one. */
    Optional<ApiException> refusal(Question<?> question) {
        try {
            ask(question);
            return Optional.empty();
        } catch (IllegalStateException error) {
            if (error.getCause() instanceof ApiException refusal) {
                return Optional.of(refusal);
            }
            throw error;
        }
    }

    /** Makes a user of `SCRAM-SHA-256=[name=...,password=...]`, as Kafka's storage tool does. */
    void makeUser(String argument) {
        Matcher user = USER.matcher(argument);
        if (!user.matches()) {
            throw new OutOfReach(argument);
        }
        ScramCredentialInfo info = new ScramCredentialInfo(ScramMechanism.fromMechanismName(user.group(1)), 4096);
        ask(admin -> admin.alterUserScramCredentials(List.of(
            new UserScramCredentialUpsertion(user.group(2), info, user.group(3)))).all().get());
    }

    /** Returns the users with SCRAM that there are now; their keys are not to be had, and empty here. */
    CredentialProvider credentials() {
        CredentialProvider all = new CredentialProvider(MECHANISMS, tokens());
        ask(admin -> admin.describeUserScramCredentials().all().get()).forEach((user, described) ->
            described.credentialInfos().forEach(each -> all.credentialCache
                .cache(each.mechanism().mechanismName(), ScramCredential.class)
                .put(user, new ScramCredential(new byte[0], new byte[0], new byte[0], each.iterations()))));
        return all;
    }

    /** Returns the delegation tokens that there are now. */
    DelegationTokenCache tokens() {
        DelegationTokenCache all = new DelegationTokenCache(MECHANISMS);
        if (node.hasTokens()) {
            ask(admin -> admin.describeDelegationToken().delegationTokens().get()).forEach(each ->
                all.updateCache(each, Map.of()));
        }
        return all;
    }

    String clusterId() {
        return ask(admin -> admin.describeCluster().clusterId().get());
    }

    Map<String, Uuid> topicIds() {
        return ask(admin -> {
            Map<String, Uuid> ids = new HashMap<>();
            admin.listTopics().listings().get().forEach(each -> ids.put(each.name(), each.topicId()));
            return ids;
        });
    }

    Optional<TopicDescription> topic(String name) {
        return ask(admin -> {
            try {
                return Optional.of(admin.describeTopics(List.of(name)).allTopicNames().get().get(name));
            } catch (ExecutionException error) {
                if (error.getCause() instanceof UnknownTopicOrPartitionException) {
                    return Optional.empty();
                }
                throw error;
            }
        });
    }

    boolean contains(TopicPartition partition) {
        return topic(partition.topic()).filter(found -> partition.partition() < found.partitions().size()).isPresent();
    }

    int leader(TopicPartition partition) {
        return topic(partition.topic()).orElseThrow().partitions().get(partition.partition()).leader().id();
    }

    ListOffsetsResultInfo offset(TopicPartition partition, OffsetSpec which) {
        return ask(admin -> admin.listOffsets(Map.of(partition, which)).partitionResult(partition).get());
    }

    /** Returns the producers of a partition by their ids, as DescribeProducers shows them. */
    Map<Long, ProducerStateEntry> producers(TopicPartition partition) {
        Map<Long, ProducerStateEntry> all = new HashMap<>();
        ask(admin -> admin.describeProducers(List.of(partition)).partitionResult(partition).get()).activeProducers().forEach(each ->
            all.put(each.producerId(), new ProducerStateEntry(each.producerId(), (short) each.producerEpoch(),
                each.coordinatorEpoch().orElse(-1), each.lastTimestamp(), each.currentTransactionStartOffset())));
        return all;
    }

    long size(TopicPartition partition) {
        return ask(admin -> admin.describeLogDirs(List.of(node.id())).allDescriptions().get().get(node.id()).values().stream()
            .map(each -> each.replicaInfos().get(partition)).filter(Objects::nonNull).mapToLong(ReplicaInfo::size).sum());
    }

    LogConfig config(String topic) {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        Map<String, String> values = new HashMap<>();
        ask(admin -> admin.describeConfigs(List.of(resource)).all().get().get(resource)).entries().forEach(each -> {
            if (each.value() != null && LogConfig.configNames().contains(each.name())) {
                values.put(each.name(), each.value());
            }
        });
        return new LogConfig(values);
    }

    /** Answers a method of Kafka's MetadataCache. */
    Object ofMetadataCache(String method, Object[] arguments) {
        switch (method) {
            case "numPartitions":
                return topic((String) arguments[0]).map(found -> found.partitions().size());
            case "getLeaderAndIsr":
                return topic((String) arguments[0]).flatMap(found -> found.partitions().stream()
                    .filter(each -> each.partition() == (int) arguments[1]).findFirst().map(Outside::leader));
            case "getTopicId":
                return topicIds().getOrDefault((String) arguments[0], Uuid.ZERO_UUID);
            case "getTopicName":
                return topicIds().entrySet().stream().filter(each -> each.getValue().equals(arguments[0])).map(Map.Entry::getKey).findFirst();
            case "topicNamesToIds":
                return topicIds();
            case "getAllTopics":
                return topicIds().keySet();
            case "contains":
                return arguments[0] instanceof TopicPartition partition ? contains(partition) : topic((String) arguments[0]).isPresent();
            case "getAliveBrokerNodes":
                return ask(admin -> List.copyOf(admin.describeCluster().nodes().get()));
            case "hasAliveBroker":
                return node.isRunning() && node.id() == (int) arguments[0];
            default:
                throw new OutOfReach("MetadataCache." + method);
        }
    }

    private static LeaderAndIsr leader(TopicPartitionInfo partition) {
        return new LeaderAndIsr(partition.leader().id(), List.of(partition.leader().id()));
    }
}
