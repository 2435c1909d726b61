import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The Java share consumer, one line of result for each scene; the only argument is the address. */
public class JavaShare {
    static final long PATIENCE_MS = 60_000;
    /** The shortest lock of a record that a group may have. */
    static final String LOCK_MS = "1000";

    static String bootstrap;
    static Admin admin;
    static KafkaProducer<String, String> producer;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        Map<String, Object> common = Map.of("bootstrap.servers", bootstrap);
        try (Admin made = Admin.create(common);
             var sender = new KafkaProducer<>(common, new StringSerializer(), new StringSerializer())) {
            admin = made;
            producer = sender;
            System.out.println("implicit: " + implicit("implicit"));
            System.out.println("explicit: " + explicit("explicit"));
            System.out.println("renewed: " + renewed("renewed"));
            System.out.println("late: " + late("late"));
            System.out.println("limit: " + limit("limit"));
            System.out.println("read_committed: " + transactions("committed", "read_committed"));
            System.out.println("read_uncommitted: " + transactions("uncommitted", "read_uncommitted"));
            System.out.println("shared: " + shared("shared"));
            System.out.println("deleted beneath: " + deletedBeneath("beneath"));
            System.out.println("made again: " + madeAgain("again"));
            System.out.println("record limit: " + recordLimit("few"));
        }
    }

    /** What the next poll or a commit accepts never comes again; what is left at the close does. */
    static String implicit(String name) throws Exception {
        prepare(name);
        List<String> seen = new ArrayList<>();
        try (var consumer = consumer(name)) {
            send(name, "first");
            seen.add(shown(some(consumer)));
            send(name, "second");
            seen.add(shown(some(consumer)));
            seen.add(outcomes(consumer.commitSync()));
            seen.add(outcomes(consumer.commitSync()));
            send(name, "third");
            seen.add(shown(some(consumer)));
        }
        send(name, "fourth");
        try (var consumer = consumer(name)) {
            seen.add(shown(some(consumer)));
        }
        return String.join(" ", seen);
    }

    static String explicit(String name) throws Exception {
        prepare(name);
        send(name, "accepted", "released", "rejected", "left");
        List<String> seen = new ArrayList<>();
        Map<Long, String> called = new TreeMap<>();
        try (var consumer = consumer(name, "share.acknowledgement.mode", "explicit")) {
            consumer.setAcknowledgementCommitCallback((offsets, error) -> offsets.values().forEach(each ->
                each.forEach(offset -> called.put(offset, name(error)))));
            var records = some(consumer, 4);
            seen.add(shown(records));
            consumer.acknowledge(records.get(0));
            consumer.acknowledge(records.get(1), AcknowledgeType.RELEASE);
            consumer.acknowledge(records.get(2), AcknowledgeType.REJECT);
            try {
                consumer.poll(Duration.ZERO);
            } catch (IllegalStateException error) {
                seen.add("not all acknowledged");
            }
            seen.add(outcomes(consumer.commitSync()));
            consumer.acknowledge(records.get(3), AcknowledgeType.RELEASE);
        }
        try (var consumer = consumer(name)) {
            seen.add(shown(some(consumer, 2)));
        }
        return String.join(" ", seen) + " " + called;
    }

    /** A record that is renewed stays with its consumer for longer than one lock lasts. */
    static String renewed(String name) throws Exception {
        prepare(name, "share.record.lock.duration.ms", LOCK_MS);
        send(name, "slow");
        List<String> seen = new ArrayList<>();
        try (var other = consumer(name)) {
            try (var consumer = consumer(name, "share.acknowledgement.mode", "explicit")) {
                var held = some(consumer);
                seen.add(shown(held));
                seen.add("lock of " + consumer.acquisitionLockTimeoutMs().get());
                long acquired = System.currentTimeMillis();
                boolean taken = false;
                Set<String> outcomes = new TreeSet<>();
                while (System.currentTimeMillis() < acquired + 2_500) {
                    consumer.acknowledge(held.get(0), AcknowledgeType.RENEW);
                    outcomes.add(outcomes(consumer.commitSync()));
                    taken |= !other.poll(Duration.ofMillis(200)).isEmpty();
                    held = some(consumer);
                }
                seen.add(shown(held) + (taken ? " taken " : " not taken ") + outcomes);
                consumer.acknowledge(held.get(0));
                seen.add(outcomes(consumer.commitSync()));
            }
            send(name, "next");
            seen.add(shown(some(other)));
        }
        return String.join(" ", seen);
    }

    /** An acknowledgement that comes after the lock has no effect on what another one holds by then. */
    static String late(String name) throws Exception {
        prepare(name, "share.record.lock.duration.ms", LOCK_MS);
        send(name, "value");
        List<String> seen = new ArrayList<>();
        try (var slow = consumer(name, "share.acknowledgement.mode", "explicit");
             var other = consumer(name, "share.acknowledgement.mode", "explicit")) {
            var late = some(slow);
            seen.add(shown(late));
            var held = some(other);
            seen.add(shown(held));
            slow.acknowledge(late.get(0), AcknowledgeType.REJECT);
            seen.add(outcomes(slow.commitSync()));
            other.acknowledge(held.get(0));
            seen.add(outcomes(other.commitSync()));
        }
        return String.join(" ", seen);
    }

    static String limit(String name) throws Exception {
        prepare(name, "share.delivery.count.limit", "2");
        send(name, "poison");
        List<String> seen = new ArrayList<>();
        try (var consumer = consumer(name, "share.acknowledgement.mode", "explicit")) {
            for (int attempt = 0; attempt < 2; attempt++) {
                var records = some(consumer);
                seen.add(shown(records));
                consumer.acknowledge(records.get(0), AcknowledgeType.RELEASE);
                seen.add(outcomes(consumer.commitSync()));
            }
            send(name, "next");
            var records = some(consumer);
            seen.add(shown(records));
            records.forEach(consumer::acknowledge);
        }
        return String.join(" ", seen) + " " + start(name);
    }

    /** The consumer acknowledges the markers itself, as gaps. */
    static String transactions(String name, String level) throws Exception {
        prepare(name, "share.isolation.level", level);
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "transactional.id", name);
        try (var sender = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            sender.initTransactions();
            for (String value : List.of("one", "aborted", "three")) {
                sender.beginTransaction();
                sender.send(new ProducerRecord<>(name, value)).get();
                if (value.equals("aborted")) {
                    sender.abortTransaction();
                } else {
                    sender.commitTransaction();
                }
            }
            send(name, "plain");
            sender.beginTransaction();
            sender.send(new ProducerRecord<>(name, "open")).get();
            List<ConsumerRecord<String, String>> records;
            try (var consumer = consumer(name)) {
                records = some(consumer, level.equals("read_committed") ? 3 : 5);
                consumer.commitSync();
            }
            String before = start(name);
            sender.abortTransaction();
            return shown(records) + " " + before;
        }
    }

    /** Each record is accepted once, by one of three members that read at the same time. */
    static String shared(String name) throws Exception {
        prepare(name);
        String[] values = new String[100];
        for (int index = 0; index < values.length; index++) {
            values[index] = "value" + index;
        }
        send(name, values);
        String[] few = {"max.poll.records", "7", "share.acquire.mode", "record_limit"};
        List<String> accepted = new ArrayList<>();
        Set<Integer> worked = new TreeSet<>();
        try (var first = consumer(name, few); var second = consumer(name, few); var third = consumer(name, few)) {
            List<KafkaShareConsumer<String, String>> members = List.of(first, second, third);
            long end = System.currentTimeMillis() + PATIENCE_MS;
            while (accepted.size() < values.length && System.currentTimeMillis() < end) {
                for (int index = 0; index < members.size(); index++) {
                    var records = members.get(index).poll(Duration.ofMillis(200));
                    if (!records.isEmpty()) {
                        worked.add(index);
                        records.forEach(record -> accepted.add(record.value()));
                        if (!outcomes(members.get(index).commitSync()).equals("{0=accepted}")) {
                            return "failed";
                        }
                    }
                }
            }
        }
        return accepted.size() + " accepted, " + new TreeSet<>(accepted).size() + " different, by " + worked.size();
    }

    static String deletedBeneath(String name) throws Exception {
        prepare(name);
        send(name, "0", "1", "2", "3", "4");
        List<String> seen = new ArrayList<>();
        try (var consumer = consumer(name, "share.acknowledgement.mode", "explicit")) {
            var records = some(consumer, 5);
            admin.deleteRecords(Map.of(new TopicPartition(name, 0), RecordsToDelete.beforeOffset(3))).all().get();
            records.forEach(consumer::acknowledge);
            seen.add(outcomes(consumer.commitSync()));
            send(name, "5");
            records = some(consumer);
            seen.add(shown(records));
            records.forEach(consumer::acknowledge);
        }
        return String.join(" ", seen) + " " + start(name);
    }

    /** The topic that is read goes, and another one comes under its name. */
    static String madeAgain(String name) throws Exception {
        prepare(name);
        send(name, "old", "older");
        List<String> seen = new ArrayList<>();
        try (var consumer = consumer(name)) {
            seen.add(shown(some(consumer, 2)));
            consumer.commitSync();
            admin.deleteTopics(List.of(name)).all().get();
            create(name);
            send(name, "new");
            seen.add(shown(some(consumer)));
        }
        return String.join(" ", seen) + " " + start(name);
    }

    static String recordLimit(String name) throws Exception {
        prepare(name);
        send(name, "0", "1", "2", "3", "4");
        List<String> seen = new ArrayList<>();
        try (var consumer = consumer(name, "share.acquire.mode", "record_limit", "max.poll.records", "2")) {
            for (int round = 0; round < 3; round++) {
                seen.add(shown(some(consumer)));
            }
        }
        return String.join(" ", seen);
    }

    /** A topic of one partition, and a group of its name that reads it from its beginning. */
    static void prepare(String name, String... settings) throws Exception {
        create(name);
        List<AlterConfigOp> operations = new ArrayList<>();
        operations.add(set("share.auto.offset.reset", "earliest"));
        for (int index = 0; index < settings.length; index += 2) {
            operations.add(set(settings[index], settings[index + 1]));
        }
        var group = new ConfigResource(ConfigResource.Type.GROUP, name);
        Map<ConfigResource, Collection<AlterConfigOp>> changes = Map.of(group, operations);
        admin.incrementalAlterConfigs(changes).all().get();
    }

    static AlterConfigOp set(String key, String value) {
        return new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET);
    }

    static void create(String name) throws Exception {
        admin.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all().get();
    }

    static void send(String topic, String... values) throws Exception {
        for (String value : values) {
            producer.send(new ProducerRecord<>(topic, value));
        }
        producer.flush();
    }

    static KafkaShareConsumer<String, String> consumer(String name, String... settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", name);
        properties.put("metadata.max.age.ms", "500");
        for (int index = 0; index < settings.length; index += 2) {
            properties.put(settings[index], settings[index + 1]);
        }
        var consumer = new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(name));
        return consumer;
    }

    /** The records of the next poll that returns any. */
    static List<ConsumerRecord<String, String>> some(KafkaShareConsumer<String, String> consumer) {
        return some(consumer, 1);
    }

    /** All are to come in one poll: the next one would ask what became of those of the last. */
    static List<ConsumerRecord<String, String>> some(KafkaShareConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (records.size() < count && System.currentTimeMillis() < end) {
            consumer.poll(Duration.ofMillis(500)).forEach(records::add);
        }
        return records;
    }

    static String shown(List<ConsumerRecord<String, String>> records) {
        List<String> each = new ArrayList<>();
        records.forEach(record -> each.add(record.value() + "x" + record.deliveryCount().get()));
        return each.toString();
    }

    static String outcomes(Map<TopicIdPartition, Optional<KafkaException>> results) {
        Map<Integer, String> outcomes = new TreeMap<>();
        results.forEach((partition, error) -> outcomes.put(partition.partition(), name(error.orElse(null))));
        return outcomes.toString();
    }

    static String name(Exception error) {
        return error == null ? "accepted" : error.getClass().getSimpleName();
    }

    static String start(String name) throws Exception {
        var offsets = admin.listShareGroupOffsets(Map.of(name, new ListShareGroupOffsetsSpec()));
        var offset = offsets.partitionsToOffsetInfo(name).get().get(new TopicPartition(name, 0));
        return offset.startOffset() + ", lag " + offset.lag().get();
    }
}
