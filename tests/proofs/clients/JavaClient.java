// The program of Apache Kafka's own client: java -cp LIBS/* JavaClient.java BOOTSTRAP TOPIC SEED REST_MS; what it prints: lines.py.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class JavaClient {
    static final int WRITERS = 2;
    static final int PARTITIONS = 4;
    static final Duration LOOK = Duration.ofMillis(100);
    static String bootstrap;
    static String topic;
    static long seed;
    static int restMs;
    static volatile boolean stops;
    static volatile boolean over;

    public static void main(String[] arguments) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            System.exit(1);
        });
        bootstrap = arguments[0];
        topic = arguments[1];
        seed = arguments[2].hashCode();
        restMs = Integer.parseInt(arguments[3]);
        List<Thread> writers = new ArrayList<>();
        for (int number = 0; number < WRITERS; number++) {
            int each = number;
            writers.add(new Thread(() -> write(each)));
        }
        List<Thread> others = List.of(new Thread(JavaClient::copy), new Thread(JavaClient::follow));
        writers.forEach(Thread::start);
        others.forEach(Thread::start);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        lines.readLine();
        stops = true;
        for (Thread writer : writers) {
            writer.join();
        }
        say("stopped");
        while (lines.readLine() != null) {
        }
        over = true;
        for (Thread other : others) {
            other.join();
        }
        System.exit(0);
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static void report(Exception error) {
        Throwable told = error.getClass() == KafkaException.class && error.getCause() != null ? error.getCause() : error;
        say("error " + told.getClass().getSimpleName());
    }

    static Properties settings(String... pairs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("request.timeout.ms", "5000");
        settings.put("reconnect.backoff.max.ms", "200");
        settings.put("metadata.recovery.rebootstrap.trigger.ms", "5000");
        for (int index = 0; index < pairs.length; index += 2) {
            settings.put(pairs[index], pairs[index + 1]);
        }
        return settings;
    }

    static KafkaProducer<String, String> producer(String name) {
        KafkaProducer<String, String> producer = new KafkaProducer<>(
            settings("transactional.id", topic + "-" + name, "transaction.timeout.ms", "60000"),
            new StringSerializer(), new StringSerializer());
        try {
            again(producer::initTransactions);
        } catch (RuntimeException error) {
            producer.close(Duration.ZERO);
            throw error;
        }
        return producer;
    }

    static KafkaConsumer<String, String> consumer(String reset) {
        return new KafkaConsumer<>(
            settings("group.id", topic, "auto.offset.reset", reset, "enable.auto.commit", "false",
                "isolation.level", "read_committed", "fetch.max.wait.ms", "100", "session.timeout.ms", "10000"),
            new StringDeserializer(), new StringDeserializer());
    }

    /** Until it is done, or is refused: after a timeout nobody knows, and the same call asks again. */
    static void again(Runnable call) {
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException error) {
                report(error);
            }
        }
    }

    static boolean isFatal(Exception error) {
        return error instanceof ProducerFencedException || error instanceof InvalidProducerEpochException
            || error instanceof OutOfOrderSequenceException || error instanceof AuthorizationException
            || error instanceof IllegalStateException;
    }

    static void write(int number) {
        Random random = new Random(seed + number);
        int life = 0;
        while (!stops) {
            life++;
            try (Closing closing = new Closing(producer(Integer.toString(number)))) {
                for (int transaction = 1; !stops; transaction++) {
                    String name = number + "." + life + "." + transaction;
                    if (!transact(closing.producer, name, random.nextDouble() < 0.85)) {
                        break;
                    }
                    pause(random.nextInt(restMs));
                }
            } catch (RuntimeException error) {
                report(error);
            }
        }
    }

    /** Whether this producer can go on. */
    static boolean transact(KafkaProducer<String, String> producer, String name, boolean commits) {
        long begun = System.nanoTime();
        boolean asked = false;
        try {
            producer.beginTransaction();
            for (int partition = 0; partition < PARTITIONS; partition++) {
                producer.send(new ProducerRecord<>(topic, partition, null, name));
            }
            producer.flush();
            if (commits) {
                asked = true;
                again(producer::commitTransaction);
            } else {
                again(producer::abortTransaction);
            }
            end(name, commits ? "committed" : "aborted", begun);
            return true;
        } catch (RuntimeException error) {
            report(error);
            boolean isOpen = !isFatal(error);
            if (isOpen) {
                try {
                    again(producer::abortTransaction);
                    asked = false;
                } catch (RuntimeException refused) {
                    report(refused);
                    isOpen = false;
                }
            }
            end(name, asked ? "unknown" : "aborted", begun);
            return isOpen;
        }
    }

    static void end(String name, String outcome, long begun) {
        say("end " + name + " " + outcome + " " + (System.nanoTime() - begun) / 1_000_000);
    }

    /** Read, process, write; after an error both begin anew, where the group has committed. */
    static void copy() {
        while (!over) {
            try (KafkaConsumer<String, String> consumer = consumer("earliest");
                    Closing closing = new Closing(producer("copier"))) {
                consumer.subscribe(List.of(topic));
                while (!over) {
                    copySome(consumer, closing.producer);
                }
            } catch (RuntimeException error) {
                report(error);
            }
        }
    }

    static void copySome(KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer) {
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        for (ConsumerRecord<String, String> record : consumer.poll(LOOK)) {
            if (ends.isEmpty()) {
                producer.beginTransaction();
            }
            String value = record.value() + " " + record.partition();
            producer.send(new ProducerRecord<>(topic + "-copies", record.partition(), null, value));
            ends.put(new TopicPartition(topic, record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        if (!ends.isEmpty()) {
            again(() -> producer.sendOffsetsToTransaction(ends, consumer.groupMetadata()));
            again(producer::commitTransaction);
        }
    }

    static void follow() {
        List<TopicPartition> places = new ArrayList<>();
        for (int partition = 0; partition < PARTITIONS; partition++) {
            places.add(new TopicPartition(topic, partition));
        }
        try (KafkaConsumer<String, String> consumer = consumer("none")) {
            consumer.assign(places);
            consumer.seekToBeginning(places);
            while (!over) {
                try {
                    for (ConsumerRecord<String, String> record : consumer.poll(LOOK)) {
                        say("read " + record.partition() + " " + record.offset() + " " + record.value());
                    }
                } catch (OffsetOutOfRangeException error) {
                    for (TopicPartition place : error.offsetOutOfRangePartitions().keySet()) {
                        say("told " + place.partition() + " " + error.getClass().getSimpleName());
                        consumer.seekToBeginning(List.of(place));
                    }
                } catch (KafkaException error) {
                    report(error);
                }
            }
        }
    }

    static void pause(int milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Closed without waiting: what is open is aborted by the next of its id. */
    record Closing(KafkaProducer<String, String> producer) implements AutoCloseable {
        @Override
        public void close() {
            producer.close(Duration.ZERO);
        }
    }
}
