import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;

/** For each line of Base64, a properties file: its pairs by key, keys and values in Base64; or "refused". */
public class KafkaProperties {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(pairs(new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8)));
        }
    }

    private static String pairs(String text) throws Exception {
        Properties read = new Properties();
        try {
            read.load(new StringReader(text));
        } catch (IllegalArgumentException e) {
            return "refused";
        }
        StringBuilder found = new StringBuilder("read");
        for (Map.Entry<Object, Object> each : new TreeMap<>(read).entrySet()) {
            found.append(' ').append(encoded((String) each.getKey())).append('=').append(encoded((String) each.getValue()));
        }
        return found.toString();
    }

    private static String encoded(String text) {
        return Base64.getUrlEncoder().withoutPadding().encodeToString(text.getBytes(StandardCharsets.UTF_16BE));
    }
}
