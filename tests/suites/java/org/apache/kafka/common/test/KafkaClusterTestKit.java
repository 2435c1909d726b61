package org.apache.kafka.common.test;

import kafka.raft.KafkaRaftManager;
import kafka.server.BrokerServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaConfig;

import oncelog.kafkatests.Brokers;
import oncelog.kafkatests.Cluster;
import oncelog.kafkatests.Node;
import oncelog.kafkatests.Notes;
import oncelog.kafkatests.OneReplica;
import oncelog.kafkatests.OutOfReach;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.server.common.ApiMessageAndVersion;

import java.io.File;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Collectors;

/** Stands where Kafka's test kit does, and starts one `oncelog serve` in the place of its brokers and controllers. */
public class KafkaClusterTestKit implements AutoCloseable {
    public static class Builder {
        private final TestKitNodes nodes;
        private final Map<String, Object> configs = new HashMap<>();
        private boolean deleteOnClose = true;

        public Builder(TestKitNodes nodes) {
            this.nodes = nodes;
        }

        public Builder setConfigProp(String key, Object value) {
            configs.put(key, value);
            return this;
        }

        public Builder setStandalone(boolean standalone) {
            return this;
        }

        public Builder setInitialVoterSet(Map<Integer, Uuid> voters) {
            return this;
        }

        public Builder setDeleteOnClose(boolean deleteOnClose) {
            this.deleteOnClose = deleteOnClose;
            return this;
        }

        public KafkaClusterTestKit build() throws Exception {
            return new KafkaClusterTestKit(nodes, configs, deleteOnClose);
        }
    }

    private final TestKitNodes nodes;
    private final boolean deleteOnClose;
    private final Node node;
    private final BrokerServer broker;
    private final ControllerServer controller;
    private final MockFaultHandler fatal = new MockFaultHandler("fatalFaultHandler");
    private final MockFaultHandler nonFatal = new MockFaultHandler("nonFatalFaultHandler");

    private KafkaClusterTestKit(TestKitNodes nodes, Map<String, Object> asked, boolean deleteOnClose) {
        if (nodes.brokerNodes().isEmpty()) {
            throw new OutOfReach("a cluster without a broker");
        }
        if (nodes.brokerNodes().size() > 1) {
            Notes.count("brokers made 1: " + nodes.brokerNodes().size());
        }
        OneReplica.install(nodes.brokerNodes().size());
        KafkaConfig config = Cluster.config(nodes, asked);
        this.nodes = nodes;
        this.deleteOnClose = deleteOnClose;
        this.node = Cluster.node(nodes, config);
        this.broker = Brokers.broker(node, config);
        this.controller = Brokers.controller(() -> node, () -> config);
    }

    public void format() { }

    public void startup() {
        node.start();
    }

    public void waitForReadyBrokers() { }

    public Admin admin() {
        return admin(Map.of(), false);
    }

    public Admin admin(Map<String, Object> configs) {
        return admin(configs, false);
    }

    public Admin admin(Map<String, Object> configs, boolean usingBootstrapControllers) {
        Map<String, Object> all = new HashMap<>(configs);
        all.putIfAbsent(usingBootstrapControllers ? "bootstrap.controllers" : "bootstrap.servers", bootstrapServers());
        all.remove(usingBootstrapControllers ? "bootstrap.servers" : "bootstrap.controllers");
        all.putIfAbsent("security.protocol", nodes.brokerListenerProtocol().name);
        if (nodes.brokerListenerProtocol().name.startsWith("SASL")) {
            all.putIfAbsent("sasl.mechanism", "PLAIN");
            all.putIfAbsent("sasl.jaas.config", "org.apache.kafka.common.security.plain.PlainLoginModule required username=\""
                + JaasUtils.KAFKA_PLAIN_ADMIN + "\" password=\"" + JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD + "\";");
        }
        return Admin.create(all);
    }

    public String bootstrapServers() {
        return node.addresses(nodes.brokerListenerName().value());
    }

    public String bootstrapControllers() {
        return bootstrapServers();
    }

    public Map<Integer, ControllerServer> controllers() {
        return nodes.controllerNodes().keySet().stream().collect(Collectors.toMap(id -> id, id -> controller));
    }

    public Controller waitForActiveController() {
        throw new OutOfReach("KafkaClusterTestKit.waitForActiveController");
    }

    public Map<Integer, BrokerServer> brokers() {
        return Map.of(node.id(), broker);
    }

    public Map<Integer, KafkaRaftManager<ApiMessageAndVersion>> raftManagers() {
        throw new OutOfReach("KafkaClusterTestKit.raftManagers");
    }

    public TestKitNodes nodes() {
        return nodes;
    }

    public MockFaultHandler fatalFaultHandler() {
        return fatal;
    }

    public MockFaultHandler nonFatalFaultHandler() {
        return nonFatal;
    }

    @Override
    public void close() throws Exception {
        node.close();
        if (deleteOnClose && !Boolean.getBoolean("oncelog.keep")) {
            Utils.delete(new File(nodes.baseDirectory()));
        }
    }
}
