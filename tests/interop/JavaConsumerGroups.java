import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** The Java client in groups of both protocols, one line of result for each scene; the argument is the address. */
public class JavaConsumerGroups {
    static String bootstrap;
    static final Duration POLL = Duration.ofMillis(50);
    static final long PATIENCE_MS = 30_000;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", (Object) bootstrap))) {
            admin.createTopics(List.of(
                new NewTopic("shared", 4, (short) 1), new NewTopic("match-1", 1, (short) 1))).all().get();
            for (String assignor : List.of("uniform", "range")) {
                System.out.println("shared " + assignor + ": " + share(admin, assignor));
            }
            System.out.println("static: " + returnAsStaticMember());
            System.out.println("pattern: " + pattern(admin));
            for (String assignor : List.of("RangeAssignor", "CooperativeStickyAssignor")) {
                System.out.println("migrated " + assignor + ": " + migrate(admin, assignor));
            }
        }
    }

    static KafkaConsumer<String, String> consumer(String group, String protocol, String... settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("group.id", group);
        properties.put("group.protocol", protocol);
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        for (int index = 0; index < settings.length; index += 2) {
            properties.put(settings[index], settings[index + 1]);
        }
        return new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
    }

    static TreeSet<String> owned(KafkaConsumer<String, String> consumer) {
        TreeSet<String> names = new TreeSet<>();
        consumer.assignment().forEach(partition -> names.add(partition.toString()));
        return names;
    }

    @SafeVarargs
    static void settle(BooleanSupplier done, KafkaConsumer<String, String>... polled) {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (!done.getAsBoolean()) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("it does not settle");
            }
            for (KafkaConsumer<String, String> each : polled) {
                each.poll(POLL);
            }
        }
    }

    @SafeVarargs
    static BooleanSupplier shared(int each, KafkaConsumer<String, String>... consumers) {
        return () -> {
            TreeSet<String> all = new TreeSet<>();
            for (KafkaConsumer<String, String> one : consumers) {
                if (one.assignment().size() != each) {
                    return false;
                }
                all.addAll(owned(one));
            }
            return all.size() == 4;
        };
    }

    /** Two members share four partitions; one leaves, the other takes over. */
    static String share(Admin admin, String assignor) throws Exception {
        String group = "group-" + assignor;
        ConsumerGroupDescription description;
        try (KafkaConsumer<String, String> one = consumer(group, "consumer", "group.remote.assignor", assignor)) {
            one.subscribe(List.of("shared"));
            try (KafkaConsumer<String, String> two = consumer(group, "consumer", "group.remote.assignor", assignor)) {
                two.subscribe(List.of("shared"));
                settle(shared(2, one, two), one, two);
                description = admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
            }
            settle(shared(4, one), one);
        }
        return description.type() + " " + description.groupState() + " " + description.partitionAssignor()
            + " " + description.members().size();
    }

    /** A static member restarts within its session: the same partitions, and nothing for the others to do. */
    static String returnAsStaticMember() {
        try (KafkaConsumer<String, String> witness = consumer("static", "consumer", "group.instance.id", "witness")) {
            witness.subscribe(List.of("shared"));
            KafkaConsumer<String, String> first = consumer("static", "consumer", "group.instance.id", "member");
            first.subscribe(List.of("shared"));
            settle(shared(2, witness, first), witness, first);
            TreeSet<String> kept = owned(first);
            TreeSet<String> rest = owned(witness);
            first.close();
            try (KafkaConsumer<String, String> second = consumer("static", "consumer", "group.instance.id", "member")) {
                second.subscribe(List.of("shared"));
                settle(() -> owned(second).equals(kept), witness, second);
                return "same partitions, others " + (owned(witness).equals(rest) ? "undisturbed" : "disturbed");
            }
        }
    }

    /** An expression that the broker matches follows the topics. */
    static String pattern(Admin admin) throws Exception {
        try (KafkaConsumer<String, String> one = consumer("pattern", "consumer")) {
            one.subscribe(new SubscriptionPattern("match-.*"));
            settle(() -> owned(one).size() == 1, one);
            admin.createTopics(List.of(new NewTopic("match-2", 1, (short) 1))).all().get();
            settle(() -> owned(one).size() == 2, one);
            return owned(one).toString();
        }
    }

    /** Classic members are replaced one by one, and back. */
    static String migrate(Admin admin, String assignor) throws Exception {
        String group = "migrated-" + assignor;
        String[] classic = {
            "partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor,
            "heartbeat.interval.ms", "200", "session.timeout.ms", "6000"};
        List<String> types = new ArrayList<>();
        KafkaConsumer<String, String> old = consumer(group, "classic", classic);
        old.subscribe(List.of("shared"));
        settle(shared(4, old), old);
        types.add(type(admin, group));
        KafkaConsumer<String, String> one = consumer(group, "consumer");
        one.subscribe(List.of("shared"));
        settle(shared(2, old, one), old, one);
        types.add(type(admin, group));
        old.close();
        settle(shared(4, one), one);
        one.commitSync(Map.of(new TopicPartition("shared", 0), new OffsetAndMetadata(0)));
        KafkaConsumer<String, String> back = consumer(group, "classic", classic);
        back.subscribe(List.of("shared"));
        settle(shared(2, one, back), one, back);
        one.close();
        settle(shared(4, back), back);
        types.add(type(admin, group));
        long kept = back.committed(java.util.Set.of(new TopicPartition("shared", 0))).size();
        back.close();
        return types + ", offsets " + kept;
    }

    static String type(Admin admin, String group) throws Exception {
        return admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get().type().toString();
    }
}
