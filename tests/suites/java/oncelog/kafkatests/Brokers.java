package oncelog.kafkatests;

import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.network.SocketServer;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaApis;
import kafka.server.KafkaConfig;
import kafka.server.ReplicaManager;

import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.controller.ResultOrError;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.server.BrokerLifecycleManager;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;

import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;

import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** Makes Kafka's objects of a node: what a process shows from outside answers, all else is out of reach. */
public final class Brokers {
    private Brokers() { }

    public static BrokerServer broker(Node node, KafkaConfig config) {
        Outside outside = new Outside(node);
        OutsideMetrics.register(node);
        Option<Plugin<Authorizer>> authorizer = authorizer(node, config);
        SocketServer sockets = sockets(() -> node);
        KRaftMetadataCache metadata = Mockito.mock(KRaftMetadataCache.class, call ->
            outside.ofMetadataCache(call.getMethod().getName(), call.getArguments()));
        LogManager logs = Mockito.mock(LogManager.class, call -> switch (call.getMethod().getName()) {
            case "getLog" -> log(outside, call.getArgument(0));
            case "getLog$default$2" -> false;
            case "liveLogDirs" -> CollectionConverters.asScala(List.of()).toSeq();
            default -> outOfReach(call);
        });
        ReplicaManager replicas = Mockito.mock(ReplicaManager.class, call -> switch (call.getMethod().getName()) {
            case "onlinePartition" -> partition(outside, call.getArgument(0));
            case "localLog" -> log(outside, call.getArgument(0));
            case "localLogOrException" -> log(outside, call.getArgument(0)).get();
            case "logManager" -> logs;
            default -> outOfReach(call);
        });
        BrokerLifecycleManager lifecycle = Mockito.mock(BrokerLifecycleManager.class, call ->
            call.getMethod().getName().equals("initialUnfenceFuture") ? CompletableFuture.completedFuture(null) : outOfReach(call));
        KafkaApis requests = Mockito.mock(KafkaApis.class, call -> switch (call.getMethod().getName()) {
            case "metadataCache" -> metadata;
            case "authorizerPlugin" -> authorizer;
            case "clusterId" -> outside.clusterId();
            case "brokerId" -> node.id();
            default -> outOfReach(call);
        });
        return Mockito.mock(BrokerServer.class, call -> {
            switch (call.getMethod().getName()) {
                case "boundPort": return port(node, call);
                case "config": return config;
                case "socketServer": return sockets;
                case "metadataCache": return metadata;
                case "replicaManager": return replicas;
                case "logManager": return logs;
                case "lifecycleManager": return lifecycle;
                case "dataPlaneRequestProcessor": return requests;
                case "authorizerPlugin": return authorizer;
                case "metrics": return OutsideMetrics.of(node.metricsPort());
                case "credentialProvider": return outside.credentials();
                case "tokenCache": return outside.tokens();
                case "clusterId": return outside.clusterId();
                case "startup": node.start(); return null;
                case "shutdown": node.stop(); return null;
                case "awaitShutdown": return null;
                case "isShutdown": return !node.isRunning();
                case "brokerState": return node.isRunning() ? BrokerState.RUNNING : BrokerState.NOT_RUNNING;
                default: return outOfReach(call);
            }
        });
    }

    /** Makes a partition that is there if the topic has it: tests wait for one, or for its end, more often than they use it. */
    private static Option<Partition> partition(Outside outside, TopicPartition partition) {
        if (!outside.contains(partition)) {
            return Option.empty();
        }
        return Option.apply(Mockito.mock(Partition.class, call -> switch (call.getMethod().getName()) {
            case "leaderLogIfLocal", "log" -> log(outside, partition);
            case "leaderIdIfLocal" -> Option.apply(outside.leader(partition));
            case "getLeaderEpoch" -> outside.offset(partition, OffsetSpec.latest()).leaderEpoch().orElse(0);
            default -> outOfReach(call);
        }));
    }

    /** Makes a log that has what requests show of it. */
    private static Option<UnifiedLog> log(Outside outside, TopicPartition partition) {
        if (!outside.contains(partition)) {
            return Option.empty();
        }
        return Option.apply(Mockito.mock(UnifiedLog.class, call -> switch (call.getMethod().getName()) {
            case "logEndOffset", "highWatermark" -> outside.offset(partition, OffsetSpec.latest()).offset();
            case "logStartOffset" -> outside.offset(partition, OffsetSpec.earliest()).offset();
            case "size" -> outside.size(partition);
            case "config" -> outside.config(partition.topic());
            case "topicPartition" -> partition;
            case "producerStateManager" -> producers(outside, partition);
            default -> outOfReach(call);
        }));
    }

    private static ProducerStateManager producers(Outside outside, TopicPartition partition) {
        return Mockito.mock(ProducerStateManager.class, call ->
            call.getMethod().getName().equals("activeProducers") ? outside.producers(partition) : outOfReach(call));
    }

    private static Option<Plugin<Authorizer>> authorizer(Node node, KafkaConfig config) {
        if (!config.originals().containsKey("authorizer.class.name")) {
            return Option.empty();
        }
        return Option.apply(Plugin.wrapInstance(new OutsideAuthorizer(new Outside(node)), null, "authorizer.class.name"));
    }

    private static SocketServer sockets(Supplier<Node> node) {
        return Mockito.mock(SocketServer.class, call ->
            call.getMethod().getName().equals("boundPort") ? port(node.get(), call) : outOfReach(call));
    }

    /**
     * Makes a controller, which tests hand around more often than they look into it; `node` is null before one is there.
     *
     * <p>Its listener is the broker's, and so are its rights.
     */
    public static ControllerServer controller(Supplier<Node> node, Supplier<KafkaConfig> config) {
        Controller controller = Mockito.mock(Controller.class, call -> switch (call.getMethod().getName()) {
            case "isActive" -> true;
            case "findAllTopicIds" -> CompletableFuture.completedFuture(new Outside(node.get()).topicIds());
            case "findTopicIds" -> CompletableFuture.completedFuture(topicIds(node.get(), call.getArgument(1)));
            default -> outOfReach(call);
        });
        return Mockito.mock(ControllerServer.class, call -> switch (call.getMethod().getName()) {
            case "controller" -> controller;
            case "socketServer" -> sockets(node);
            case "authorizerPlugin" -> authorizer(node.get(), config.get());
            case "config" -> config.get();
            case "shutdown", "awaitShutdown", "startup" -> null;
            default -> outOfReach(call);
        });
    }

    private static Map<String, ResultOrError<Uuid>> topicIds(Node node, Collection<String> names) {
        Map<String, Uuid> known = new Outside(node).topicIds();
        Map<String, ResultOrError<Uuid>> found = new HashMap<>();
        for (String each : names) {
            found.put(each, known.containsKey(each) ? ResultOrError.of(known.get(each))
                : ResultOrError.of(new ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION)));
        }
        return found;
    }

    private static Object port(Node node, InvocationOnMock call) {
        return node.port(((ListenerName) call.getArgument(0)).value());
    }

    private static Object outOfReach(InvocationOnMock call) {
        String name = call.getMethod().getName();
        String owner = call.getMethod().getDeclaringClass().getSimpleName();
        if (name.equals("toString")) {
            return "oncelog, as " + owner;
        }
        throw new OutOfReach(owner + "." + name);
    }
}
