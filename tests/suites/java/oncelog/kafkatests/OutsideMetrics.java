package oncelog.kafkatests;

import com.yammer.metrics.core.Gauge;
import com.yammer.metrics.core.MetricName;
import com.yammer.metrics.core.MetricsRegistry;

import org.apache.kafka.common.metrics.Measurable;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.server.metrics.KafkaYammerMetrics;

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What a broker reports at /metrics, by the names that its own help says Kafka has for it. */
final class OutsideMetrics {
    private static final String GROUP = "socket-server-metrics";
    private static final String EXPIRED = "expired-connections-killed-count";
    private static final Pattern REPORTED = Pattern.compile(
        "^# HELP (\\S+) .*In Kafka: kafka\\.server:type=" + GROUP + ",name=([a-z-]+)\\.\\n(?:#.*\\n)*\\1 (\\S+)$", Pattern.MULTILINE);

    static {
        // A timer for idle connections would be a thread that is left, for which Kafka's tests look.
        System.setProperty("http.keepAlive", "false");
    }

    private OutsideMetrics() { }

    /** Returns Kafka's metrics of connections with their values of now. */
    static Metrics of(int port) {
        Metrics metrics = new Metrics();
        read(port).forEach((name, value) ->
            metrics.addMetric(metrics.metricName(name, GROUP), (Measurable) (config, now) -> value));
        return metrics;
    }

    /** Lets the registry of the process have what Kafka's broker adds to it. */
    static void register(Node node) {
        MetricsRegistry registry = KafkaYammerMetrics.defaultRegistry();
        MetricName name = new MetricName("kafka.network", "SocketServer", "ExpiredConnectionsKilledCount");
        registry.removeMetric(name);
        registry.newGauge(name, new Gauge<Double>() {
            @Override
            public Double value() {
                return read(node.metricsPort()).get(EXPIRED);
            }
        });
    }

    private static Map<String, Double> read(int port) {
        Map<String, Double> found = new HashMap<>();
        try (InputStream page = URI.create("http://127.0.0.1:" + port + "/metrics").toURL().openStream()) {
            Matcher each = REPORTED.matcher(new String(page.readAllBytes(), StandardCharsets.UTF_8));
            while (each.find()) {
                found.put(each.group(2), Double.valueOf(each.group(3)));
            }
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        return found;
    }
}
