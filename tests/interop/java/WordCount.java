import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts words exactly once: lines, a repartition topic, a RocksDB store with its changelog, counts.
 *
 * <p>Arguments: the broker, the application's id (which names its topics as well), the directory of its state, and the
 * group protocol (classic or streams). It says each state that it reaches, and runs until it is killed.
 */
public final class WordCount {
    private WordCount() {
    }

    public static void main(String[] arguments) {
        String application = arguments[1];
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(application + "-lines", Consumed.with(Serdes.String(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("words").withCachingDisabled())
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(application + "-counts", Produced.with(Serdes.String(), Serdes.String()));

        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("application.id", application);
        properties.put("state.dir", arguments[2]);
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("num.stream.threads", "2");
        properties.put("replication.factor", "1");
        properties.put("commit.interval.ms", "100");
        properties.put("consumer.auto.offset.reset", "earliest");
        properties.put("group.protocol", arguments[3]);
        // A killed instance is missed soon, and its open transactions end soon.
        if (arguments[3].equals("classic")) { // the broker decides it for a streams group
            properties.put("consumer.session.timeout.ms", "2000");
            properties.put("consumer.heartbeat.interval.ms", "200");
        }
        properties.put("producer.transaction.timeout.ms", "3000");

        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setStateListener((state, before) -> System.out.println("state " + state));
        streams.setUncaughtExceptionHandler(error -> {
            System.out.println("replaced a thread after " + error);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
    }
}
