import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Every setting of Apache Kafka's broker and topics: kind, name, type, default and what is allowed, between tabs. */
public class KafkaSettings {
    public static void main(String[] args) {
        print("broker", AbstractKafkaConfig.CONFIG_DEF);
        print("topic", LogConfig.configDefCopy());
    }

    private static void print(String kind, ConfigDef settings) {
        for (Map.Entry<String, ConfigDef.ConfigKey> each : new TreeMap<>(settings.configKeys()).entrySet()) {
            ConfigDef.ConfigKey key = each.getValue();
            String text = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE
                    ? "required" : "=" + ConfigDef.convertToString(key.defaultValue, key.type);
            String allowed = key.validator == null ? "" : key.validator.toString();
            System.out.println(kind + "\t" + each.getKey() + "\t" + key.type + "\t" + text + "\t" + allowed);
        }
    }
}
