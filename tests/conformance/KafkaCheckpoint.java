// Writes bootstrap.checkpoint into the directory given, by Apache Kafka's own classes, with the records of
// tests/unit/oncelog/test_graduate_files.py:
//   java -cp "$ONCELOG_KAFKA_LIBS/*" tests/conformance/KafkaCheckpoint.java tests/golden/graduate

import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.ProducerIdsRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.metadata.bootstrap.BootstrapDirectory;
import org.apache.kafka.metadata.bootstrap.BootstrapMetadata;
import org.apache.kafka.server.common.ApiMessageAndVersion;

public class KafkaCheckpoint {
    static final Uuid TOPIC = new Uuid(0x1111111111114111L, 0x9111111111111111L);
    static final Uuid DIRECTORY = new Uuid(0x2222222222224222L, 0xA222222222222222L);

    static ApiMessageAndVersion of(ApiMessage record, int version) {
        return new ApiMessageAndVersion(record, (short) version);
    }

    static ApiMessageAndVersion feature(String name, int level) {
        return of(new FeatureLevelRecord().setName(name).setFeatureLevel((short) level), 0);
    }

    static ApiMessageAndVersion config(int type, String resource, String name, String value) {
        return of(new ConfigRecord().setResourceType((byte) type).setResourceName(resource).setName(name).setValue(value), 0);
    }

    static ApiMessageAndVersion partition(int index) {
        return of(new PartitionRecord().setPartitionId(index).setTopicId(TOPIC).setReplicas(List.of(7)).setIsr(List.of(7))
            .setLeader(7).setLeaderEpoch(4).setPartitionEpoch(4).setDirectories(List.of(DIRECTORY)), 1);
    }

    public static void main(String[] arguments) throws Exception {
        List<ApiMessageAndVersion> records = List.of(
            feature("metadata.version", 30),
            feature("eligible.leader.replicas.version", 1),
            feature("group.version", 1),
            feature("share.version", 1),
            feature("streams.version", 1),
            feature("transaction.version", 1),
            of(new ProducerIdsRecord().setBrokerId(7).setBrokerEpoch(3).setNextProducerId(2000), 0),
            config(32, "readers", "consumer.session.timeout.ms", "46000"),
            config(4, "", "log.cleaner.threads", "2"),
            of(new TopicRecord().setName("orders").setTopicId(TOPIC), 0),
            partition(0),
            partition(1),
            config(2, "orders", "retention.ms", "-1"));
        new BootstrapDirectory(arguments[0]).writeBinaryFile(BootstrapMetadata.fromRecords(records, "golden"));
    }
}
