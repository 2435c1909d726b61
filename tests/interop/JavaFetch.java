import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The Java consumer with a fetch session, one line of result for each scene; the only argument is the address. */
public class JavaFetch {
    static final int PARTITIONS = 30;
    static final int ROUNDS = 60;
    static final long PATIENCE_MS = 30_000;

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> common = Map.of("bootstrap.servers", arguments[0]);
        try (Admin admin = Admin.create(common);
             KafkaProducer<String, String> producer =
                 new KafkaProducer<>(common, new StringSerializer(), new StringSerializer())) {
            admin.createTopics(List.of(new NewTopic("wide", PARTITIONS, (short) 1))).all().get();
            try (KafkaConsumer<String, String> consumer = consumer(arguments[0])) {
                List<TopicPartition> all = new ArrayList<>();
                for (int index = 0; index < PARTITIONS; index++) {
                    all.add(new TopicPartition("wide", index));
                }
                consumer.assign(all);
                consumer.seekToBeginning(all);
                System.out.println("one record a round: " + trickle(producer, consumer));
                consumer.assign(all.subList(0, PARTITIONS / 2));
                System.out.println("half of it forgotten: " + trickle(producer, consumer));
            }
            try (KafkaConsumer<String, String> consumer = consumer(arguments[0])) {
                System.out.println("made anew: " + madeAnew(admin, producer, consumer));
            }
        }
    }

    static KafkaConsumer<String, String> consumer(String bootstrap) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", "reader");
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("isolation.level", "read_committed");
        properties.put("metadata.max.age.ms", "500");
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    /** Each record is read before the next one is written, so that each needs fetches of its own. */
    static String trickle(KafkaProducer<String, String> producer, KafkaConsumer<String, String> consumer)
            throws Exception {
        int partitions = consumer.assignment().size();
        Set<String> seen = new HashSet<>();
        int count = 0;
        for (int round = 0; round < ROUNDS; round++) {
            String value = partitions + " " + round;
            producer.send(new ProducerRecord<>("wide", round % partitions, null, value)).get();
            long end = System.currentTimeMillis() + PATIENCE_MS;
            while (!seen.contains(value) && System.currentTimeMillis() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    seen.add(record.value());
                    count++;
                }
            }
        }
        return count + " records, " + seen.size() + " different";
    }

    /** The topic that is read goes, and another one comes under its name. */
    static String madeAnew(Admin admin, KafkaProducer<String, String> producer, KafkaConsumer<String, String> consumer)
            throws Exception {
        List<String> read = new ArrayList<>();
        for (String life : List.of("first", "second")) {
            admin.createTopics(List.of(new NewTopic("again", 1, (short) 1))).all().get();
            consumer.assign(List.of(new TopicPartition("again", 0)));
            for (int index = 0; index < 3; index++) {
                producer.send(new ProducerRecord<>("again", 0, null, life)).get();
            }
            if (life.equals("second")) {
                consumer.seekToBeginning(consumer.assignment());
            }
            long end = System.currentTimeMillis() + PATIENCE_MS;
            while ((read.isEmpty() || !read.get(read.size() - 1).equals(life) || read.size() % 3 != 0)
                    && System.currentTimeMillis() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    read.add(record.value());
                }
            }
            if (life.equals("first")) {
                admin.deleteTopics(List.of("again")).all().get();
                consumer.poll(Duration.ofMillis(700));
            }
        }
        return read.toString();
    }
}
