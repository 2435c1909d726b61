package kafka.server;

import oncelog.kafkatests.Harness;

import org.apache.kafka.common.utils.Time;

import scala.Option;

/** Stands where Kafka's does behind QuorumTestHarness, and makes one `oncelog serve` of its brokers. */
public class KRaftQuorumImplementation implements QuorumImplementation {
    private final Harness harness;

    private KRaftQuorumImplementation(QuorumTestHarness test) {
        harness = new Harness(test);
    }

    public static KRaftQuorumImplementation ofOneNode(Object test) {
        return new KRaftQuorumImplementation((QuorumTestHarness) test);
    }

    public ControllerServer controllerServer() {
        return harness.controller;
    }

    @Override
    public KafkaBroker createBroker(KafkaConfig config, Time time, boolean startup, Option<String> threadNamePrefix) {
        return harness.broker(config, startup);
    }

    @Override
    public void shutdown() {
        harness.shutdown();
    }
}
