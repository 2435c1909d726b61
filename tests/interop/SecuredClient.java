import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.UnsupportedCallbackException;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerTokenCallback;
import org.apache.kafka.common.security.oauthbearer.internals.secured.BasicOAuthBearerToken;
import org.apache.kafka.common.security.token.delegation.DelegationToken;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A secured client: each line of input is a job (tests/support/security/secured_jobs.py), each line of output what became of it. */
public class SecuredClient {
    public static void main(String[] arguments) throws IOException {
        ObjectMapper json = new ObjectMapper();
        BufferedReader jobs = new BufferedReader(new InputStreamReader(System.in));
        for (String line = jobs.readLine(); line != null; line = jobs.readLine()) {
            String answer;
            try {
                answer = "ok " + String.join(" ", done(json.readTree(line)));
            } catch (Exception error) {
                answer = named(error);
            }
            System.out.println(answer.replace('\n', ' '));
        }
    }

    static String named(Exception error) {
        Throwable cause = error;
        // What is thrown on top may say that it waited, and no more.
        while (cause.getCause() != null && Errors.forException(cause) == Errors.UNKNOWN_SERVER_ERROR) {
            cause = cause.getCause();
        }
        Errors known = Errors.forException(cause);
        String name = known == Errors.UNKNOWN_SERVER_ERROR ? cause.getClass().getSimpleName() : known.name();
        StringBuilder said = new StringBuilder(name);
        for (Throwable each = error; each != null; each = each.getCause()) {
            said.append(": ").append(each.getMessage());
        }
        return said.toString();
    }

    static String patience(JsonNode job) {
        return job.get("patience_ms").asText();
    }

    static List<String> done(JsonNode job) throws Exception {
        return switch (job.get("scene").asText()) {
            case "produce" -> produce(job);
            case "transaction" -> transact(job);
            case "consume" -> consume(job, "classic");
            case "consume by KIP-848" -> consume(job, "consumer");
            case "delegate" -> delegate(job);
            default -> throw new IllegalArgumentException(job.get("scene").asText());
        };
    }

    static Properties settings(JsonNode job) {
        Properties settings = new Properties();
        JsonNode security = job.get("security");
        settings.put("bootstrap.servers", job.get("bootstrap").asText());
        settings.put("security.protocol", security.get("protocol").asText());
        if (!security.get("authority_path").asText().isEmpty()) {
            settings.put("ssl.truststore.type", "PEM");
            settings.put("ssl.truststore.location", security.get("authority_path").asText());
        }
        String mechanism = security.get("mechanism").asText();
        if (!mechanism.isEmpty()) {
            settings.put("sasl.mechanism", mechanism);
            settings.put("sasl.jaas.config", jaas(security, mechanism));
        }
        if (mechanism.equals("OAUTHBEARER")) {
            settings.put("sasl.login.callback.handler.class", GivenToken.class);
        }
        settings.put("request.timeout.ms", patience(job));
        settings.put("default.api.timeout.ms", patience(job));
        settings.put("max.block.ms", patience(job));
        return settings;
    }

    static String jaas(JsonNode security, String mechanism) {
        String modules = "org.apache.kafka.common.security.";
        if (mechanism.equals("OAUTHBEARER")) {
            String token = security.get("token").asText();
            return modules + "oauthbearer.OAuthBearerLoginModule required token=\"" + token + "\";";
        }
        String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        return modules + module + " required username=\"" + security.get("user").asText() + "\" password=\""
            + security.get("password").asText() + "\"" + (security.get("is_delegated").asBoolean() ? " tokenauth=\"true\"" : "")
            + ";";
    }

    static KafkaProducer<String, String> producer(Properties settings) {
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    static List<String> produce(JsonNode job) throws ExecutionException, InterruptedException {
        try (KafkaProducer<String, String> producer = producer(settings(job))) {
            producer.send(new ProducerRecord<>(job.get("topic").asText(), job.get("value").asText())).get();
            return List.of();
        }
    }

    static List<String> transact(JsonNode job) throws ExecutionException, InterruptedException {
        Properties settings = settings(job);
        settings.put("transactional.id", job.get("name").asText());
        try (KafkaProducer<String, String> producer = producer(settings)) {
            producer.initTransactions();
            producer.beginTransaction();
            try {
                producer.send(new ProducerRecord<>(job.get("topic").asText(), job.get("value").asText())).get();
            } catch (ExecutionException | KafkaException error) {
                producer.abortTransaction();
                throw error;
            }
            producer.commitTransaction();
            return List.of();
        }
    }

    static List<String> consume(JsonNode job, String protocol) {
        Properties settings = settings(job);
        settings.put("group.id", job.get("name").asText());
        settings.put("group.protocol", protocol);
        settings.put("isolation.level", "read_committed");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(job.get("topic").asText()));
            List<String> values = new ArrayList<>();
            long end = System.currentTimeMillis() + job.get("patience_ms").asLong();
            while (values.size() < job.get("count").asInt()) {
                if (System.currentTimeMillis() > end) {
                    throw new IllegalStateException("it read " + values);
                }
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(100))) {
                    values.add(each.value());
                }
            }
            consumer.commitSync();
            return values;
        }
    }

    static List<String> delegate(JsonNode job) throws ExecutionException, InterruptedException {
        try (Admin admin = Admin.create(settings(job))) {
            DelegationToken token = admin.createDelegationToken().delegationToken().get();
            return List.of(token.tokenInfo().tokenId(), Base64.getEncoder().encodeToString(token.hmac()));
        }
    }

    /** Hands the token of the JAAS line over, as a program's own handler would that fetches one. */
    public static class GivenToken implements AuthenticateCallbackHandler {
        private String token;

        @Override
        public void configure(Map<String, ?> settings, String mechanism, List<AppConfigurationEntry> entries) {
            token = (String) entries.get(0).getOptions().get("token");
        }

        @Override
        public void handle(Callback[] callbacks) throws UnsupportedCallbackException {
            for (Callback each : callbacks) {
                if (each instanceof OAuthBearerTokenCallback wanted) {
                    long now = System.currentTimeMillis();
                    wanted.token(new BasicOAuthBearerToken(token, Set.of("kafka"), now + 3_600_000, "given", now));
                } else {
                    throw new UnsupportedCallbackException(each);
                }
            }
        }

        @Override
        public void close() {}
    }
}
