import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Utils;

/** Apache Kafka's answers to single questions: one question a line in, one answer a line out. */
public class KafkaFacts {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            out.println(switch (words[0]) {
                case "errors" -> errors();
                case "keys" -> keys();
                case "murmur2" -> Integer.toString(Utils.murmur2(HEX.parseHex(words[1])));
                case "hash" -> {
                    String text = new String(HEX.parseHex(words[1]), StandardCharsets.UTF_8);
                    yield text.hashCode() + " " + Utils.abs(text.hashCode()) % 50;
                }
                case "read" -> read(HEX.parseHex(words[1]));
                case "write" -> write(words[1], Integer.parseInt(words[2]));
                case "marker" -> marker(Long.parseLong(words[1]), Short.parseShort(words[2]), words[3]);
                default -> throw new IllegalArgumentException(line);
            });
        }
        out.flush();
    }

    private static String errors() {
        StringBuilder text = new StringBuilder();
        for (Errors error : Errors.values()) {
            boolean retriable = error.exception() instanceof org.apache.kafka.common.errors.RetriableException;
            text.append(error.code()).append(' ').append(error.name()).append(' ').append(retriable).append(';');
        }
        return text.toString();
    }

    private static String keys() {
        StringBuilder text = new StringBuilder();
        for (ApiKeys key : ApiKeys.values()) {
            text.append(key.id).append(' ').append(key.name()).append(';');
        }
        return text.toString();
    }

    /** Every batch: its validity, producer and kind; every record: offset, timestamp, key, value, headers. */
    private static String read(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes)).batches()) {
            batch.ensureValid();
            text.append("batch ").append(batch.producerId()).append(' ').append(batch.producerEpoch());
            text.append(' ').append(batch.baseSequence()).append(' ').append(batch.lastSequence());
            text.append(' ').append(batch.isTransactional()).append(' ').append(batch.isControlBatch());
            text.append(' ').append(batch.lastOffset()).append(' ').append(batch.maxTimestamp()).append(';');
            for (Record record : batch) {
                text.append(record.offset()).append(' ').append(record.timestamp());
                text.append(' ').append(hex(record.key())).append(' ').append(hex(record.value()));
                for (Header header : record.headers()) {
                    text.append(' ').append(HEX.formatHex(header.key().getBytes(StandardCharsets.UTF_8)));
                    text.append('=').append(header.value() == null ? "null" : HEX.formatHex(header.value()));
                }
                text.append(';');
            }
        }
        return text.toString();
    }

    private static String hex(ByteBuffer data) {
        return data == null ? "null" : HEX.formatHex(Utils.toArray(data));
    }

    private static String write(String compression, int count) {
        SimpleRecord[] records = new SimpleRecord[count];
        for (int i = 0; i < count; i++) {
            records[i] = new SimpleRecord(1000 + i * 7, ("key-" + i).getBytes(), ("value-" + i).repeat(20).getBytes());
        }
        Compression codec = Compression.of(CompressionType.forName(compression)).build();
        return hex(MemoryRecords.withIdempotentRecords(codec, 9L, (short) 2, 5, records).buffer());
    }

    private static String marker(long producerId, short epoch, String type) {
        EndTransactionMarker marker = new EndTransactionMarker(ControlRecordType.valueOf(type), 3);
        return hex(MemoryRecords.withEndTransactionMarker(17L, 1234L, 0, producerId, epoch, marker).buffer());
    }
}
