import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Apache Kafka's own codecs behind a pipe. Each line in: a message's name, a version, its bytes in hexadecimal (or
 * "default" for a message as Kafka constructs it). Each line out: the bytes as Kafka writes them again, and its JSON.
 */
public class KafkaCodec {
    private static final String[][] CLASSES = {
        {"org.apache.kafka.common.message.", "Data"},
        {"org.apache.kafka.common.message.", ""},
        {"org.apache.kafka.coordinator.group.generated.", ""},
        {"org.apache.kafka.coordinator.transaction.generated.", ""},
        {"org.apache.kafka.coordinator.share.generated.", ""},
        {"org.apache.kafka.common.metadata.", ""},
    };

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            out.println(answer(words[0], Short.parseShort(words[1]), words[2]));
        }
        out.flush();
    }

    private static String answer(String name, short version, String hex) {
        try {
            Class<?> type = find(name);
            Message message = (Message) type.getConstructor().newInstance();
            if (!hex.equals("default")) {
                ByteBufferAccessor data = new ByteBufferAccessor(ByteBuffer.wrap(HexFormat.of().parseHex(hex)));
                message.read(data, version);
                if (data.remaining() > 0) {
                    return "! " + data.remaining() + " bytes are left over";
                }
            }
            ByteBuffer written = MessageUtil.toByteBufferAccessor(message, version).buffer();
            byte[] bytes = new byte[written.remaining()];
            written.get(bytes);
            return HexFormat.of().formatHex(bytes) + " " + json(type, message, version);
        } catch (Throwable error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            return "! " + cause.toString().replace('\n', ' ');
        }
    }

    private static Class<?> find(String name) throws ClassNotFoundException {
        for (String[] around : CLASSES) {
            try {
                return Class.forName(around[0] + name + around[1]);
            } catch (ClassNotFoundException absent) {
                // The next package may have it.
            }
        }
        throw new ClassNotFoundException(name);
    }

    private static JsonNode json(Class<?> type, Message message, short version) throws Exception {
        Method write = Class.forName(type.getName() + "JsonConverter").getMethod("write", type, short.class);
        return (JsonNode) write.invoke(null, message, version);
    }
}
