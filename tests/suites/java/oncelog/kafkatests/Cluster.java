package oncelog.kafkatests;

import kafka.server.KafkaConfig;

import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.test.TestKitNode;
import org.apache.kafka.common.test.TestKitNodes;

import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;

/** Makes of what a test asks of its cluster the settings of the one node that it gets. */
public final class Cluster {
    private static final String LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "
        + "username=\"plain-admin\" password=\"plain-admin-secret\" user_plain-admin=\"plain-admin-secret\" "
        + "user_plain-user1=\"plain-user1-secret\";";
    /** Of Kafka's other processes, and of places on its disk. */
    private static final Set<String> NOT_PASSED = Set.of("log.dir", "log.dirs", "metadata.log.dir", "node.id", "broker.id",
        "process.roles", "controller.listener.names", "controller.quorum.voters", "controller.quorum.bootstrap.servers");

    private Cluster() { }

    public static KafkaConfig config(TestKitNodes nodes, Map<String, Object> asked) {
        int id = nodes.brokerNodes().firstKey();
        Map<String, Object> all = new HashMap<>(asked);
        String listener = nodes.brokerListenerName().value();
        all.putIfAbsent("listeners", listener + "://localhost:0");
        all.putIfAbsent("listener.security.protocol.map", listener + ":" + nodes.brokerListenerProtocol().name
            + ",CONTROLLER:PLAINTEXT");
        all.putIfAbsent("inter.broker.listener.name", listener);
        all.putAll(nodes.brokerNodes().get(id).propertyOverrides());
        all.putIfAbsent("unstable.api.versions.enable", "true");
        all.put("process.roles", "broker");
        all.put("node.id", Integer.toString(id));
        all.put("controller.listener.names", "CONTROLLER");
        all.put("controller.quorum.voters", "3000@localhost:9093");
        TestKitNode node = nodes.brokerNodes().get(id);
        all.put("log.dirs", String.join(",", node.logDataDirectories()));
        if (nodes.brokerListenerProtocol().name.startsWith("SASL")) {
            all.putIfAbsent("sasl.enabled.mechanisms", "PLAIN");
            all.putIfAbsent("sasl.mechanism.inter.broker.protocol", "PLAIN");
            all.putIfAbsent("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
            all.putIfAbsent("super.users", "User:plain-admin");
        }
        return new KafkaConfig(all, false);
    }

    public static Node node(TestKitNodes nodes, KafkaConfig config) {
        int brokers = nodes.brokerNodes().size();
        Map<String, String> settings = settings(config, brokers);
        if (nodes.brokerListenerProtocol().name.startsWith("SASL")) {
            String name = nodes.brokerListenerName().value().toLowerCase(Locale.ROOT);
            settings.putIfAbsent("listener.name." + name + ".plain.sasl.jaas.config", LOGIN);
        }
        return node(config, settings, Path.of(nodes.baseDirectory(), "oncelog-" + config.brokerId()));
    }

    /** Makes the node of a Scala test's harness, whose brokers are as many as ask for it. */
    static Node node(KafkaConfig config, Path directory) {
        return node(config, settings(config, 2), directory.resolve("oncelog"));
    }

    private static Node node(KafkaConfig config, Map<String, String> settings, Path directory) {
        Map<String, LoginProxy> proxies = Logins.principals(settings);
        KeyStores.convert(settings);
        Logins.leaveKerberosOut(settings);
        Logins.addModules(settings);
        Logins.addOutside(settings);
        return new Node(config.brokerId(), settings, directory, proxies);
    }

    private static Map<String, String> settings(KafkaConfig config, int brokers) {
        Map<String, String> settings = new TreeMap<>();
        config.originals().forEach((name, value) -> {
            if (!NOT_PASSED.contains(name)) {
                settings.put(name, ofOneNode(name, text(value), brokers));
            }
        });
        settings.put("listeners", withoutController(settings.getOrDefault("listeners", "PLAINTEXT://localhost:0")));
        settings.computeIfPresent("advertised.listeners", (name, value) -> withoutController(value));
        settings.computeIfPresent("listener.security.protocol.map", (name, value) -> withoutController(value));
        return settings;
    }

    private static String text(Object value) {
        if (value instanceof Password password) {
            return password.value();
        }
        if (value instanceof Collection<?> several) {
            return several.stream().map(Cluster::text).collect(Collectors.joining(","));
        }
        return value instanceof Class<?> type ? type.getName() : String.valueOf(value);
    }

    private static String ofOneNode(String name, String value, int brokers) {
        boolean copies = name.endsWith("replication.factor") || name.endsWith("min.isr") || name.equals("min.insync.replicas");
        if (copies && brokers > 1 && !value.equals("1")) {
            Notes.count("setting made 1: " + name);
            return "1";
        }
        return value;
    }

    private static String withoutController(String several) {
        return Arrays.stream(several.split(","))
            .map(String::trim)
            .filter(each -> !each.startsWith("CONTROLLER:"))
            .map(each -> each.replace("://:", "://localhost:"))
            .collect(Collectors.joining(","));
    }
}
