// Apache Kafka's SharePartition behind a pipe: one step a line, one answer a line.
//   new <max locks> <max deliveries> <lock ms>
//   restart                                       the share-partition is read back from what it has written
//   fetch <member> <mode> <batch size> <max records> <fetch offset> <batches in hex> <producer:first offset,... or ->
//   acknowledge <member> <first:last:type,type;...>
//   release <member>
//   wait <ms>                                     and expired locks are released
//   start <log start offset>
// An answer has what the step gave, then the start, end and next fetch offset, the count of terminal records, and all
// offsets in flight as first-last:state:count:member. All runs in one thread; what is written is durable at once.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.function.Supplier;
import kafka.server.ReplicaManager;
import kafka.server.share.SharePartition;
import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.ShareFetchResponseData.AcquiredRecords;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.share.PersisterStateBatchCombiner;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.fetch.DelayedShareFetchKey;
import org.apache.kafka.server.share.fetch.InFlightBatch;
import org.apache.kafka.server.share.fetch.InFlightState;
import org.apache.kafka.server.share.persister.NoOpStatePersister;
import org.apache.kafka.server.share.persister.PartitionFactory;
import org.apache.kafka.server.share.persister.PartitionStateBatchData;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
import org.apache.kafka.server.share.persister.ReadShareGroupStateParameters;
import org.apache.kafka.server.share.persister.ReadShareGroupStateResult;
import org.apache.kafka.server.share.persister.TopicData;
import org.apache.kafka.server.share.persister.WriteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.WriteShareGroupStateResult;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchPartitionData;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;

public class KafkaSharePartition {
    static final Uuid TOPIC = new Uuid(1, 1);
    static final TopicIdPartition PARTITION = new TopicIdPartition(TOPIC, new TopicPartition("topic", 0));

    static class Clock implements Time {
        long now = 1000;
        public long milliseconds() { return now; }
        public long nanoseconds() { return now * 1_000_000; }
        public void sleep(long ms) { now += ms; }
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) { throw new UnsupportedOperationException(); }
    }

    static class Timers implements Timer {
        final Clock clock;
        final TreeMap<Long, List<TimerTask>> tasks = new TreeMap<>();
        Timers(Clock clock) { this.clock = clock; }
        public void add(TimerTask task) {
            long expiration = clock.now + task.delayMs;
            new TimerTaskEntry(task, expiration);
            tasks.computeIfAbsent(expiration, any -> new ArrayList<>()).add(task);
        }
        public boolean advanceClock(long timeoutMs) {
            clock.now += timeoutMs;
            while (!tasks.isEmpty() && tasks.firstKey() <= clock.now) {
                for (TimerTask task : tasks.pollFirstEntry().getValue()) if (!task.isCancelled()) task.run();
            }
            return true;
        }
        public int size() { return tasks.size(); }
        public void close() { }
    }

    static class Store extends NoOpStatePersister {
        long startOffset = 0;
        int complete = 0;
        List<PersisterStateBatch> batches = new ArrayList<>();

        @Override
        public CompletableFuture<ReadShareGroupStateResult> readState(ReadShareGroupStateParameters request) {
            return CompletableFuture.completedFuture(new ReadShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(TOPIC,
                List.of(PartitionFactory.newPartitionAllData(0, 1, startOffset, Errors.NONE.code(), "", batches))))).build());
        }

        @Override
        public CompletableFuture<WriteShareGroupStateResult> writeState(WriteShareGroupStateParameters request) {
            PartitionStateBatchData data = request.groupTopicPartitionData().topicsData().get(0).partitions().get(0);
            startOffset = data.startOffset();
            complete = data.deliveryCompleteCount();
            // Some neighbours that could be one are left apart, depending on what was written together.
            List<PersisterStateBatch> combined = new PersisterStateBatchCombiner(batches, data.stateBatches(), startOffset).combineStateBatches();
            batches = new ArrayList<>();
            for (PersisterStateBatch one : combined) {
                PersisterStateBatch before = batches.isEmpty() ? null : batches.get(batches.size() - 1);
                if (before != null && before.lastOffset() + 1 == one.firstOffset() && before.deliveryState() == one.deliveryState()
                        && before.deliveryCount() == one.deliveryCount()) {
                    batches.set(batches.size() - 1, new PersisterStateBatch(before.firstOffset(), one.lastOffset(), one.deliveryState(), one.deliveryCount()));
                } else {
                    batches.add(one);
                }
            }
            return CompletableFuture.completedFuture(new WriteShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(TOPIC,
                List.of(PartitionFactory.newPartitionErrorData(0, Errors.NONE.code(), ""))))).build());
        }
    }

    // Neither is ever constructed: only these methods of them are called.
    static class NoReplicas extends ReplicaManager {
        NoReplicas() { super(null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null); }
        @Override
        public void completeDelayedShareFetchRequest(DelayedShareFetchKey key) { }
    }

    static class NoConfigs extends GroupConfigManager {
        NoConfigs() { super(Map.of(), null, null); }
        @Override
        public Optional<GroupConfig> groupConfig(String groupId) { return Optional.empty(); }
    }

    @SuppressWarnings("unchecked")
    static <T> T unmade(Class<T> kind) throws Exception {
        Class<?> type = Class.forName("sun.misc.Unsafe");
        Field field = type.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return (T) type.getMethod("allocateInstance", Class.class).invoke(field.get(null), kind);
    }

    static Object call(Object target, String name, Object... arguments) throws Exception {
        for (Method method : target.getClass().getDeclaredMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == arguments.length) {
                method.setAccessible(true);
                return method.invoke(target, arguments);
            }
        }
        throw new NoSuchMethodException(name);
    }

    Clock clock = new Clock();
    Timers timers = new Timers(clock);
    Store store = new Store();
    int maxLocks, maxDeliveries, lockMs;
    SharePartition partition;

    void begin() throws Exception {
        timers = new Timers(clock);
        Constructor<SharePartition> constructor = SharePartition.class.getDeclaredConstructor(String.class, TopicIdPartition.class,
            int.class, int.class, int.class, int.class, Timer.class, Time.class,
            org.apache.kafka.server.share.persister.Persister.class, ReplicaManager.class, GroupConfigManager.class,
            Class.forName("kafka.server.share.SharePartitionManager$SharePartitionListener"));
        constructor.setAccessible(true);
        partition = constructor.newInstance("group", PARTITION, 0, maxLocks, maxDeliveries, lockMs, timers, clock, store,
            unmade(NoReplicas.class), unmade(NoConfigs.class), null);
        partition.maybeInitialize().join();
    }

    String step(String[] words) throws Exception {
        switch (words[0]) {
            case "new":
                clock = new Clock();
                store = new Store();
                maxLocks = Integer.parseInt(words[1]);
                maxDeliveries = Integer.parseInt(words[2]);
                lockMs = Integer.parseInt(words[3]);
                begin();
                return "";
            case "restart":
                begin();
                return "";
            case "fetch":
                return fetch(words);
            case "acknowledge":
                try {
                    return ended(partition.acknowledge(words[1], batches(words[2])));
                } catch (NullPointerException error) {
                    // For offsets around the start offset while nothing is in flight there: a mistake of Kafka.
                    return "INVALID_RECORD_STATE";
                }
            case "release":
                return ended(partition.releaseAcquiredRecords(words[1]));
            case "wait":
                timers.advanceClock(Long.parseLong(words[1]));
                return "";
            case "start":
                call(partition, "updateCacheAndOffsets", Long.parseLong(words[1]));
                return "";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    String fetch(String[] words) throws Exception {
        boolean isCommitted = !words[7].equals("-");
        List<FetchResponseData.AbortedTransaction> aborted = new ArrayList<>();
        if (isCommitted) for (String one : words[7].split(",")) {
            String[] parts = one.split(":");
            aborted.add(new FetchResponseData.AbortedTransaction().setProducerId(Long.parseLong(parts[0])).setFirstOffset(Long.parseLong(parts[1])));
        }
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(HexFormat.of().parseHex(words[6])));
        FetchPartitionData data = new FetchPartitionData(Errors.NONE, 1000, 0, records, Optional.empty(), OptionalLong.empty(),
            Optional.of(aborted), OptionalInt.empty(), false);
        List<String> acquired = new ArrayList<>();
        for (AcquiredRecords one : partition.acquire(words[1], ShareAcquireMode.forId(Byte.parseByte(words[2])),
                Integer.parseInt(words[3]), Integer.parseInt(words[4]), Long.parseLong(words[5]), data,
                isCommitted ? FetchIsolation.TXN_COMMITTED : FetchIsolation.HIGH_WATERMARK).acquiredRecords()) {
            acquired.add(one.firstOffset() + "-" + one.lastOffset() + ":" + one.deliveryCount());
        }
        return String.join(",", acquired);
    }

    static List<ShareAcknowledgementBatch> batches(String text) {
        List<ShareAcknowledgementBatch> batches = new ArrayList<>();
        for (String one : text.split(";")) {
            String[] parts = one.split(":");
            List<Byte> types = new ArrayList<>();
            for (String type : parts[2].split(",")) types.add(Byte.parseByte(type));
            batches.add(new ShareAcknowledgementBatch(Long.parseLong(parts[0]), Long.parseLong(parts[1]), types));
        }
        return batches;
    }

    static String ended(CompletableFuture<Void> future) {
        try {
            future.join();
            return "";
        } catch (CompletionException error) {
            Errors code = Errors.forException(error.getCause());
            return code == Errors.INVALID_REQUEST ? code.name() + " " + error.getCause().getMessage() : code.name();
        }
    }

    @SuppressWarnings("unchecked")
    String state() throws Exception {
        long start = (long) call(partition, "startOffset");
        List<String> runs = new ArrayList<>();
        long first = -1, last = -1;
        String kind = "";
        for (InFlightBatch batch : ((NavigableMap<Long, InFlightBatch>) call(partition, "cachedState")).values()) {
            for (long offset = batch.firstOffset(); offset <= batch.lastOffset(); offset++) {
                if (offset < start) continue;
                InFlightState state = batch.offsetState() == null ? null : batch.offsetState().get(offset);
                String one = state == null
                    ? batch.batchState().id + ":" + batch.batchDeliveryCount() + ":" + batch.batchMemberId()
                    : state.state().id + ":" + state.deliveryCount() + ":" + state.memberId();
                if (one.equals(kind) && offset == last + 1) {
                    last = offset;
                    continue;
                }
                if (first >= 0) runs.add(first + "-" + last + ":" + kind);
                first = last = offset;
                kind = one;
            }
        }
        if (first >= 0) runs.add(first + "-" + last + ":" + kind);
        List<String> written = new ArrayList<>();
        for (PersisterStateBatch one : store.batches) written.add(one.firstOffset() + "-" + one.lastOffset() + ":" + one.deliveryState() + ":" + one.deliveryCount());
        return start + " " + call(partition, "endOffset") + " " + partition.nextFetchOffset() + " "
            + call(partition, "deliveryCompleteCount") + " [" + String.join(" ", runs) + "] written " + store.startOffset + " "
            + store.complete + " [" + String.join(" ", written) + "]";
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);  // Kafka's log
        KafkaSharePartition self = new KafkaSharePartition();
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String answer;
            try {
                answer = self.step(line.split(" "));
            } catch (Exception error) {
                answer = "raised " + error;
                error.printStackTrace();
            }
            answers.println(answer + " | " + self.state());
        }
        answers.flush();
        System.exit(0);
    }
}
