import java.time.Duration;
import org.apache.kafka.streams.tests.SmokeTestDriver;

/** The driver of Kafka Streams' smoke test: BOOTSTRAP KEYS RECORDS_PER_KEY SECONDS. Its own main has one size only. */
public final class SmokeDriver {
    public static void main(String[] arguments) {
        String bootstrap = arguments[0];
        int recordsPerKey = Integer.parseInt(arguments[2]);
        var written = SmokeTestDriver.generate(
            bootstrap, Integer.parseInt(arguments[1]), recordsPerKey, Duration.ofSeconds(Long.parseLong(arguments[3])));
        boolean exactlyOnce = true;
        SmokeTestDriver.verify(bootstrap, written, recordsPerKey, exactlyOnce);
    }
}
