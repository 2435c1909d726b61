import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Joins orders with customers exactly once, in a streams group: the orders go through a repartition topic that must have
 * as many partitions as the topic of customers, and the customers are kept in a store.
 *
 * <p>Arguments: the broker, the application's id (which names its topics as well), the directory of its state. An order is
 * "number customer", a bill has the order's number as its key and the customer's name. It says each state that it reaches,
 * and runs until it is killed.
 */
public final class OrderJoin {
    private OrderJoin() {
    }

    public static void main(String[] arguments) {
        String application = arguments[1];
        StreamsBuilder builder = new StreamsBuilder();
        Consumed<String, String> strings = Consumed.with(Serdes.String(), Serdes.String());
        KTable<String, String> customers = builder.table(application + "-customers", strings);
        builder.stream(application + "-orders", strings)
            .selectKey((key, order) -> order.split(" ")[1])
            .join(
                customers,
                (order, name) -> order.split(" ")[0] + " " + name,
                Joined.with(Serdes.String(), Serdes.String(), Serdes.String()))
            .selectKey((customer, bill) -> bill.split(" ")[0])
            .mapValues(bill -> bill.split(" ")[1])
            .to(application + "-bills", Produced.with(Serdes.String(), Serdes.String()));

        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("application.id", application);
        properties.put("state.dir", arguments[2]);
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("group.protocol", "streams");
        properties.put("num.stream.threads", "2");
        properties.put("commit.interval.ms", "100");
        properties.put("consumer.auto.offset.reset", "earliest");
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
