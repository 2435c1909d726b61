import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

/** Every setting of Apache Kafka's clients: whose, and the name, between tabs. */
public class KafkaClientSettings {
    public static void main(String[] args) {
        print("producer", ProducerConfig.configNames());
        print("consumer", ConsumerConfig.configNames());
        print("admin", AdminClientConfig.configNames());
    }

    private static void print(String owner, Set<String> names) {
        for (String name : new TreeSet<>(names)) {
            System.out.println(owner + "\t" + name);
        }
    }
}
