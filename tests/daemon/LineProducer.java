// A transactional producer of Apache Kafka's own client, told what to do line by line; each line is answered by one.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

public class LineProducer {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", arguments[1]);
        settings.put("request.timeout.ms", "1000");
        settings.put("delivery.timeout.ms", "30000");
        settings.put("max.block.ms", "30000");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split(" ", 4);
                try {
                    switch (words[0]) {
                        case "init" -> producer.initTransactions();
                        case "begin" -> producer.beginTransaction();
                        case "send" ->
                            producer.send(new ProducerRecord<>(words[1], Integer.parseInt(words[2]), null, words[3])).get();
                        case "commit" -> producer.commitTransaction();
                        case "abort" -> producer.abortTransaction();
                        default -> throw new IllegalArgumentException(line);
                    }
                    System.out.println("ok");
                } catch (Exception error) {
                    System.out.println(error);
                }
            }
        }
    }
}
