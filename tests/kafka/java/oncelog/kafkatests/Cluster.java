package oncelog.kafkatests;

import org.apache.kafka.common.test.TestKitNode;
import org.apache.kafka.common.test.TestKitNodes;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** Makes of what a test asks of its cluster the settings of the one node that it gets. */
public final class Cluster {
    private static final String LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "
        + "username=\"plain-admin\" password=\"plain-admin-secret\" user_plain-admin=\"plain-admin-secret\" "
        + "user_plain-user1=\"plain-user1-secret\";";
    /** Of Kafka's other processes, and of places on its disk. */
    private static final Set<String> NOT_PASSED = Set.of("log.dir", "log.dirs", "metadata.log.dir", "node.id", "broker.id",
        "process.roles", "controller.listener.names", "controller.quorum.voters", "controller.quorum.bootstrap.servers");

    private Cluster() { }

    public static Map<String, Object> configs(TestKitNodes nodes, Map<String, Object> asked) {
        int id = nodes.brokerNodes().firstKey();
        Map<String, Object> all = new HashMap<>(asked);
        String listener = nodes.brokerListenerName().value();
        all.putIfAbsent("listeners", listener + "://localhost:0");
        all.putIfAbsent("listener.security.protocol.map", listener + ":" + nodes.brokerListenerProtocol().name
            + ",CONTROLLER:PLAINTEXT");
        all.putIfAbsent("inter.broker.listener.name", listener);
        all.putAll(nodes.brokerNodes().get(id).propertyOverrides());
        all.put("process.roles", "broker");
        all.put("node.id", Integer.toString(id));
        all.put("controller.listener.names", "CONTROLLER");
        all.put("controller.quorum.voters", "3000@localhost:9093");
        TestKitNode node = nodes.brokerNodes().get(id);
        all.put("log.dirs", String.join(",", node.logDataDirectories()));
        if (nodes.brokerListenerProtocol().name.startsWith("SASL")) {
            all.putIfAbsent("sasl.enabled.mechanisms", "PLAIN");
            all.putIfAbsent("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
            all.putIfAbsent("super.users", "User:plain-admin");
        }
        return all;
    }

    public static Node node(TestKitNodes nodes, Map<String, Object> configs) {
        Map<String, String> settings = new TreeMap<>();
        configs.forEach((name, value) -> {
            if (!NOT_PASSED.contains(name)) {
                settings.put(name, ofOneNode(name, String.valueOf(value), nodes.brokerNodes().size()));
            }
        });
        settings.put("listeners", listenersOfClients(settings.get("listeners")));
        settings.put("listener.security.protocol.map", settings.get("listener.security.protocol.map").replace(",CONTROLLER:PLAINTEXT", ""));
        if (nodes.brokerListenerProtocol().name.startsWith("SASL")) {
            String name = nodes.brokerListenerName().value().toLowerCase(java.util.Locale.ROOT);
            settings.putIfAbsent("listener.name." + name + ".plain.sasl.jaas.config", LOGIN);
        }
        int id = nodes.brokerNodes().firstKey();
        return new Node(id, settings, Path.of(nodes.baseDirectory(), "oncelog-" + id));
    }

    private static String ofOneNode(String name, String value, int brokers) {
        boolean copies = name.endsWith("replication.factor") || name.endsWith("min.isr") || name.equals("min.insync.replicas");
        if (copies && brokers > 1 && !value.equals("1")) {
            Notes.count("setting made 1: " + name);
            return "1";
        }
        return value;
    }

    private static String listenersOfClients(String listeners) {
        StringBuilder kept = new StringBuilder();
        for (String each : listeners.split(",")) {
            if (!each.trim().startsWith("CONTROLLER:")) {
                kept.append(kept.length() == 0 ? "" : ",").append(each.trim().replace("://:", "://localhost:"));
            }
        }
        return kept.toString();
    }
}
