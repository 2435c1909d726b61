package oncelog.kafkatests;

import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KRaftQuorumImplementation;
import kafka.server.KafkaConfig;
import kafka.server.QuorumTestHarness;

import net.bytebuddy.agent.ByteBuddyAgent;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.implementation.bytecode.assign.Assigner;
import net.bytebuddy.matcher.ElementMatchers;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.metadata.storage.Formatter;

import java.lang.reflect.Field;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;

/** The cluster of a Scala test: its harness makes no controller, and all the brokers that it makes are one node. */
public final class Harness {
    private Node node;
    private BrokerServer broker;
    private int brokers;
    private KafkaConfig config;
    private final List<String> users;
    public final ControllerServer controller = Brokers.controller(() -> node, () -> config);

    public Harness(QuorumTestHarness test) {
        users = users(test);
    }

    /** Returns the users that Kafka's cluster is formatted with; here a client makes them. */
    private static List<String> users(QuorumTestHarness test) {
        Formatter formatter = new Formatter();
        test.addFormatterSettings(formatter);
        try {
            Field field = Formatter.class.getDeclaredField("scramArguments");
            field.setAccessible(true);
            return ((List<?>) field.get(formatter)).stream().map(String::valueOf).toList();
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Changes Kafka's harness before its classes are loaded. */
    static void install() {
        new AgentBuilder.Default()
            .disableClassFormatChanges()
            .with(AgentBuilder.RedefinitionStrategy.RETRANSFORMATION)
            .type(ElementMatchers.named("kafka.server.QuorumTestHarness"))
            .transform((builder, type, loader, module, domain) -> builder.visit(Advice.to(NoController.class)
                .on(ElementMatchers.named("newKRaftQuorum").and(ElementMatchers.takesArguments(2)))))
            .type(ElementMatchers.named("org.apache.kafka.connect.util.clusters.EmbeddedConnectBuilder"))
            .transform((builder, type, loader, module, domain) -> builder.visit(Advice.to(PluginsByTheirFiles.class)
                .on(ElementMatchers.named("build").and(ElementMatchers.takesArguments(0)))))
            .type(ElementMatchers.named("org.apache.kafka.connect.util.clusters.ConnectAssertions"))
            .transform((builder, type, loader, module, domain) -> builder.visit(Advice.to(OneBroker.class)
                .on(ElementMatchers.nameEndsWith("NumBrokersAreUp"))))
            .type(ElementMatchers.nameEndsWith(".EmbeddedKafkaCluster"))
            .transform((builder, type, loader, module, domain) -> builder.visit(Advice.to(OneCopy.class)
                .on(ElementMatchers.named("createTopic").and(ElementMatchers.takesArgument(2, int.class)))))
            .type(ElementMatchers.named("kafka.utils.TestUtils$"))
            .transform((builder, type, loader, module, domain) -> builder
                .visit(Advice.to(Nothing.class).on(ElementMatchers.named("ensureConsistentKRaftMetadata")))
                .visit(Advice.to(Find.class).on(ElementMatchers.namedOneOf("createOffsetsTopicWithAdmin",
                    "createTransactionStateTopicWithAdmin"))))
            .installOn(ByteBuddyAgent.install());
    }

    /** Starts the node that stands for all brokers, or returns it. */
    public synchronized BrokerServer broker(KafkaConfig config, boolean startup) {
        brokers++;
        if (brokers > 1) {
            Notes.count("brokers made 1");
        }
        OneReplica.install(brokers);
        Path directory = Path.of(config.logDirs().get(0));
        if (node == null || !node.isRunning() && !node.isIn(directory)) {
            this.config = config;
            node = Cluster.node(config, directory);
            node.makeUsers(users);
            broker = Brokers.broker(node, config);
        }
        if (startup) {
            node.start();
        }
        return broker;
    }

    public synchronized void shutdown() {
        if (node != null) {
            node.close();
        }
    }

    public static final class NoController {
        private NoController() { }

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter() {
            return true;
        }

        @Advice.OnMethodExit
        static void exit(@Advice.This Object test, @Advice.Return(readOnly = false, typing = Assigner.Typing.DYNAMIC) Object quorum) {
            quorum = KRaftQuorumImplementation.ofOneNode(test);
        }
    }

    public static final class Nothing {
        private Nothing() { }

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter() {
            return true;
        }
    }

    /** Lets Connect's workers find their plugins by META-INF/services: they read every class of every jar otherwise, a minute long. */
    public static final class PluginsByTheirFiles {
        private PluginsByTheirFiles() { }

        @Advice.OnMethodEnter
        static void enter(@Advice.FieldValue("workerProps") Map<String, String> settings) {
            settings.putIfAbsent("plugin.discovery", "service_load");
        }
    }

    /** Lets a topic have one replica before Kafka's own helper counts the brokers. */
    public static final class OneCopy {
        private OneCopy() { }

        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(value = 2, readOnly = false) int replicas) {
            replicas = OneReplica.of(replicas);
        }
    }

    /** Lets Connect's cluster be up with the broker that there is. */
    public static final class OneBroker {
        private OneBroker() { }

        @Advice.OnMethodEnter
        static void enter(@Advice.Argument(value = 0, readOnly = false) int brokers) {
            brokers = brokers > 1 && brokers <= OneReplica.brokers ? 1 : brokers;
        }
    }

    /** Makes the topic of a coordinator as clients do, by looking for the coordinator. */
    public static void findCoordinator(Admin admin, String method) {
        try {
            if (method.startsWith("createOffsets")) {
                admin.listConsumerGroupOffsets("of-nobody").all().get();
            } else {
                admin.describeTransactions(List.of("of-nobody")).all().get();
            }
        } catch (ExecutionException found) {
            return;
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    public static final class Find {
        private Find() { }

        @Advice.OnMethodEnter(skipOn = Advice.OnNonDefaultValue.class)
        static boolean enter(@Advice.Argument(0) Admin admin, @Advice.Origin("#m") String method) {
            Harness.findCoordinator(admin, method);
            return true;
        }
    }
}
