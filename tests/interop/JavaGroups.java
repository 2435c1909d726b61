import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The Java client in groups, one line of result for each scene; the only argument is the broker's address. */
public class JavaGroups {
    static String bootstrap;
    static final Duration POLL = Duration.ofMillis(100);
    static final long PATIENCE_MS = 30_000;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", (Object) bootstrap))) {
            admin.createTopics(List.of(
                new NewTopic("shared", 4, (short) 1), new NewTopic("source", 2, (short) 1),
                new NewTopic("sink", 1, (short) 1))).all().get();
        }
        for (String assignor : List.of("RangeAssignor", "CooperativeStickyAssignor")) {
            System.out.println("shared " + assignor + ": " + share(assignor));
        }
        System.out.println("static: " + returnAsStaticMember());
        System.out.println("transactions: " + consumeTransformProduce());
    }

    static KafkaConsumer<String, String> consumer(String group, String... settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", group);
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("isolation.level", "read_committed");
        properties.put("heartbeat.interval.ms", "200");
        for (int index = 0; index < settings.length; index += 2) {
            properties.put(settings[index], settings[index + 1]);
        }
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    /** Two members share four partitions; one leaves, the other takes over. */
    static String share(String assignor) {
        String[] settings = {"partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor};
        List<Integer> sizes = new ArrayList<>();
        try (KafkaConsumer<String, String> one = consumer("group " + assignor, settings)) {
            one.subscribe(List.of("shared"));
            try (KafkaConsumer<String, String> two = consumer("group " + assignor, settings)) {
                two.subscribe(List.of("shared"));
                await(() -> {
                    one.poll(POLL);
                    two.poll(POLL);
                    return one.assignment().size() == 2 && two.assignment().size() == 2;
                });
                TreeSet<String> all = new TreeSet<>();
                one.assignment().forEach(partition -> all.add(partition.toString()));
                two.assignment().forEach(partition -> all.add(partition.toString()));
                sizes.add(all.size());
            }
            await(() -> {
                one.poll(POLL);
                return one.assignment().size() == 4;
            });
            sizes.add(one.assignment().size());
        }
        return sizes.toString();
    }

    /** A static member restarts within its session: the same partitions, the same generation, no rebalance for others. */
    static String returnAsStaticMember() {
        List<String> events = new ArrayList<>();
        ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                events.add("revoked");
            }

            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            }
        };
        int before;
        int after;
        try (KafkaConsumer<String, String> witness = consumer("static", "group.instance.id", "witness")) {
            witness.subscribe(List.of("shared"), listener);
            KafkaConsumer<String, String> member = consumer("static", "group.instance.id", "member");
            member.subscribe(List.of("shared"));
            KafkaConsumer<String, String> first = member;
            await(() -> {
                witness.poll(POLL);
                first.poll(POLL);
                return witness.assignment().size() == 2 && first.assignment().size() == 2;
            });
            events.clear();
            before = member.groupMetadata().generationId();
            TreeSet<String> held = new TreeSet<>();
            member.assignment().forEach(partition -> held.add(partition.toString()));
            member.close();
            try (KafkaConsumer<String, String> second = consumer("static", "group.instance.id", "member")) {
                second.subscribe(List.of("shared"));
                await(() -> {
                    witness.poll(POLL);
                    second.poll(POLL);
                    return second.assignment().size() == 2;
                });
                after = second.groupMetadata().generationId();
                TreeSet<String> again = new TreeSet<>();
                second.assignment().forEach(partition -> again.add(partition.toString()));
                return "same generation " + (before == after) + ", same partitions " + held.equals(again)
                    + ", others revoked " + events.size();
            }
        }
    }

    /** Read, transform, write, commit offsets with the transaction; every third transaction is aborted and done again. */
    static String consumeTransformProduce() {
        try (KafkaProducer<String, String> producer = producer(null)) {
            for (int number = 0; number < 20; number++) {
                producer.send(new ProducerRecord<>("source", number % 2, null, Integer.toString(number)));
            }
        }
        int transactionCount = 0;
        try (KafkaConsumer<String, String> consumer = consumer("transform", "max.poll.records", "3");
             KafkaProducer<String, String> producer = producer("transform")) {
            producer.initTransactions();
            consumer.subscribe(List.of("source"));
            Map<TopicPartition, Long> done = new HashMap<>();
            while (done.values().stream().mapToLong(Long::longValue).sum() < 20) {
                Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
                producer.beginTransaction();
                for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                    producer.send(new ProducerRecord<>("sink", record.value()));
                    positions.put(new TopicPartition(record.topic(), record.partition()),
                        new OffsetAndMetadata(record.offset() + 1));
                }
                if (positions.isEmpty()) {
                    producer.abortTransaction();
                    continue;
                }
                producer.sendOffsetsToTransaction(positions, consumer.groupMetadata());
                if (++transactionCount % 3 == 0) {
                    producer.abortTransaction();
                    Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
                    for (TopicPartition partition : consumer.assignment()) {
                        OffsetAndMetadata position = committed.get(partition);
                        consumer.seek(partition, position == null ? 0 : position.offset());
                    }
                } else {
                    producer.commitTransaction();
                    positions.forEach((partition, position) -> done.put(partition, position.offset()));
                }
            }
        }
        TreeMap<Integer, Integer> seen = new TreeMap<>();
        try (KafkaConsumer<String, String> reader = consumer("reader")) {
            reader.assign(List.of(new TopicPartition("sink", 0)));
            long end = reader.endOffsets(reader.assignment()).values().iterator().next();
            await(() -> {
                reader.poll(POLL).forEach(record -> seen.merge(Integer.parseInt(record.value()), 1, Integer::sum));
                return reader.position(new TopicPartition("sink", 0)) >= end;
            });
        }
        boolean isOnce = seen.values().stream().allMatch(count -> count == 1);
        return seen.size() + " records, each once " + isOnce;
    }

    static KafkaProducer<String, String> producer(String transactionalId) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        if (transactionalId != null) {
            properties.put("transactional.id", transactionalId);
        }
        return new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
    }

    interface Condition {
        boolean holds();
    }

    static void await(Condition condition) {
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (!condition.holds()) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("it did not happen in time");
            }
        }
    }
}
