import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** A transaction that lasts until standard input has a line: prints how its commit fails, and that a new producer works. */
public final class JavaOverdue {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", arguments[0], "transactional.id", "id");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            begin(producer);
            System.out.println("open");
            System.in.read();
            try {
                producer.commitTransaction();
                System.out.println("committed");
            } catch (RuntimeException error) {
                System.out.println(error.getClass().getSimpleName());
            }
        }
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            begin(producer);
            producer.commitTransaction();
            System.out.println("committed");
        }
    }

    private static void begin(KafkaProducer<String, String> producer) throws Exception {
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>("topic", "value")).get();
    }
}
