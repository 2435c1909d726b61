package org.apache.kafka.common.test.junit;

import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;

import oncelog.kafkatests.Notes;
import oncelog.kafkatests.OutOfReach;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.KafkaClusterTestKit;
import org.apache.kafka.common.test.TestKitNodes;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.fault.FaultHandlerException;

import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;

import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;

/** Stands where Kafka's does behind `@ClusterTest`, and gives each test a cluster that is one `oncelog serve`. */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String name;
    private final ClusterConfig config;
    private final boolean isCombined;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean isCombined) {
        this.name = name;
        this.config = config;
        this.isCombined = isCombined;
    }

    @Override
    public String getDisplayName(int index) {
        return name + " [" + index + "] " + (isCombined ? "combined" : "isolated") + " " + String.join(",", config.displayTags());
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        OneNode cluster = new OneNode(config, isCombined);
        return List.of(
            (BeforeEachCallback) context -> {
                if (config.isAutoStart()) {
                    cluster.start();
                }
            },
            (AfterTestExecutionCallback) context -> cluster.stop(),
            new ClusterInstanceParameterResolver(cluster));
    }

    private static final class OneNode implements ClusterInstance {
        private final ClusterConfig config;
        private final boolean isCombined;
        private KafkaClusterTestKit kit;
        private boolean started;
        private boolean stopped;

        OneNode(ClusterConfig config, boolean isCombined) {
            this.config = config;
            this.isCombined = isCombined;
        }

        private synchronized KafkaClusterTestKit kit() {
            if (kit == null) {
                try {
                    KafkaClusterTestKit.Builder builder = new KafkaClusterTestKit.Builder(new TestKitNodes.Builder()
                        .setCombined(isCombined)
                        .setNumBrokerNodes(config.numBrokers())
                        .setNumDisksPerBroker(config.numDisksPerBroker())
                        .setPerServerProperties(config.perServerOverrideProperties())
                        .setNumControllerNodes(config.numControllers())
                        .setBrokerListenerName(config.brokerListenerName())
                        .setBrokerSecurityProtocol(config.brokerSecurityProtocol())
                        .setControllerListenerName(config.controllerListenerName())
                        .setControllerSecurityProtocol(config.controllerSecurityProtocol())
                        .build());
                    config.serverProperties().forEach(builder::setConfigProp);
                    kit = builder.build();
                } catch (RuntimeException error) {
                    throw error;
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            }
            return kit;
        }

        @Override
        public Type type() {
            return isCombined ? Type.CO_KRAFT : Type.KRAFT;
        }

        @Override
        public Map<Integer, KafkaBroker> brokers() {
            return new HashMap<>(kit().brokers());
        }

        @Override
        public Map<Integer, ControllerServer> controllers() {
            return kit().controllers();
        }

        @Override
        public ClusterConfig config() {
            return config;
        }

        @Override
        public Set<Integer> controllerIds() {
            return kit().nodes().controllerNodes().keySet();
        }

        @Override
        public ListenerName clientListener() {
            return config.brokerListenerName();
        }

        @Override
        public ListenerName controllerListenerName() {
            return config.controllerListenerName();
        }

        @Override
        public String bootstrapServers() {
            return kit().bootstrapServers();
        }

        @Override
        public String bootstrapControllers() {
            return kit().bootstrapControllers();
        }

        @Override
        public List<Integer> controllerBoundPorts() {
            return brokerBoundPorts();
        }

        @Override
        public String clusterId() {
            try (Admin admin = admin()) {
                return admin.describeCluster().clusterId().get();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public Set<GroupProtocol> supportedGroupProtocols() {
            String protocols = config.serverProperties().getOrDefault("group.coordinator.rebalance.protocols", "consumer");
            return protocols.contains("consumer") ? Set.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER) : Set.of(GroupProtocol.CLASSIC);
        }

        @Override
        public Optional<FaultHandlerException> firstFatalException() {
            return Optional.empty();
        }

        @Override
        public Optional<FaultHandlerException> firstNonFatalException() {
            return Optional.empty();
        }

        @Override
        public void start() {
            if (!started) {
                started = true;
                kit().startup();
                setFeatures();
            }
        }

        /** Kafka's cluster is formatted with these levels; here a client asks for them. */
        private void setFeatures() {
            Map<String, FeatureUpdate> levels = new HashMap<>();
            config.features().forEach((feature, level) ->
                levels.put(feature.featureName(), new FeatureUpdate(level, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE)));
            if (levels.isEmpty()) {
                return;
            }
            try (Admin admin = admin()) {
                admin.updateFeatures(levels, new UpdateFeaturesOptions()).values().forEach((name, done) -> {
                    try {
                        done.get();
                    } catch (Exception refused) {
                        Notes.count("feature level refused: " + name + "=" + levels.get(name).maxVersionLevel());
                    }
                });
            }
        }

        @Override
        public boolean started() {
            return started;
        }

        @Override
        public void stop() {
            if (!stopped && kit != null) {
                try {
                    kit.close();
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            }
            stopped = true;
        }

        @Override
        public boolean stopped() {
            return stopped;
        }

        @Override
        public void shutdownBroker(int id) {
            broker(id).shutdown();
        }

        @Override
        public void startBroker(int id) {
            broker(id).startup();
        }

        private KafkaBroker broker(int id) {
            KafkaBroker broker = brokers().get(id);
            if (broker == null) {
                throw new IllegalArgumentException("there is no broker " + id + ": several brokers were made one");
            }
            return broker;
        }

        @Override
        public void waitForReadyBrokers() { }

        @Override
        public void ensureConsistentMetadata() { }

        @Override
        public void ensureConsistentMetadata(Collection<KafkaBroker> brokers, Collection<ControllerServer> controllers) { }

        @Override
        public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
            try (Admin admin = admin()) {
                waitFor(() -> partitionsOf(admin, topic) == partitions, topic + " is not there");
            }
        }

        @Override
        public void waitTopicDeletion(String topic) throws InterruptedException {
            try (Admin admin = admin()) {
                waitFor(() -> !admin.listTopics().names().get().contains(topic), topic + " is still there");
            }
        }

        private static void waitFor(Callable<Boolean> condition, String otherwise) throws InterruptedException {
            long deadline = System.currentTimeMillis() + 60_000L;
            try {
                while (!condition.call()) {
                    if (System.currentTimeMillis() > deadline) {
                        throw new AssertionError(otherwise);
                    }
                    Thread.sleep(20);
                }
            } catch (InterruptedException | RuntimeException error) {
                throw error;
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        private static int partitionsOf(Admin admin, String topic) {
            try {
                return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
            } catch (Exception notYet) {
                return -1;
            }
        }

        @Override
        public List<Authorizer> authorizers() {
            throw new OutOfReach("ClusterInstance.authorizers");
        }

        @Override
        public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries) throws InterruptedException {
            try (Admin admin = admin()) {
                waitFor(() -> {
                    Set<AccessControlEntry> found = new HashSet<>();
                    for (AclBinding each : admin.describeAcls(filter).values().get()) {
                        found.add(each.entry());
                    }
                    return found.equals(new HashSet<>(entries));
                }, "the ACLs are not those expected: " + entries);
            }
        }
    }
}
