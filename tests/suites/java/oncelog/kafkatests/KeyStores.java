package oncelog.kafkatests;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.Key;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.util.Base64;
import java.util.List;
import java.util.Map;

/** Converts the Java key stores of a test's settings to PEM: oncelog reads no Java key stores, and says how to convert them. */
final class KeyStores {
    private static final List<String> STORES = List.of("ssl.keystore", "ssl.truststore");

    private KeyStores() { }

    static void convert(Map<String, String> settings) {
        Map<String, String> given = Map.copyOf(settings);
        for (String setting : given.keySet()) {
            for (String store : STORES) {
                if (setting.endsWith(store + ".location")) {
                    convert(settings, given, setting.substring(0, setting.length() - store.length() - ".location".length()), store);
                }
            }
        }
    }

    /** A listener that has no password or type of its own has that of all. */
    private static void convert(Map<String, String> settings, Map<String, String> given, String prefix, String store) {
        String name = prefix + store;
        String type = given.getOrDefault(name + ".type", given.getOrDefault(store + ".type", "JKS"));
        if (type.equals("PEM")) {
            return;
        }
        Path from = Path.of(settings.get(name + ".location"));
        if (!Files.exists(from)) {
            return;
        }
        String password = given.getOrDefault(name + ".password", given.get(store + ".password"));
        String keyPassword = store.equals("ssl.keystore")
            ? given.getOrDefault(prefix + "ssl.key.password", given.getOrDefault("ssl.key.password", password)) : null;
        Path pem = from.resolveSibling(from.getFileName() + ".pem");
        try {
            Files.writeString(pem, pem(from, type, password, keyPassword));
        } catch (GeneralSecurityException | IOException error) {
            throw new IllegalStateException(error);
        }
        settings.put(name + ".type", "PEM");
        settings.put(name + ".location", pem.toString());
        for (String each : List.of(name + ".password", prefix + "ssl.key.password", store + ".password", "ssl.key.password")) {
            settings.remove(each);
        }
    }

    private static String pem(Path from, String type, String password, String keyPassword) throws GeneralSecurityException, IOException {
        KeyStore store = KeyStore.getInstance(type);
        try (InputStream in = Files.newInputStream(from)) {
            store.load(in, password == null ? null : password.toCharArray());
        }
        StringBuilder text = new StringBuilder();
        var aliases = store.aliases();
        while (aliases.hasMoreElements()) {
            String alias = aliases.nextElement();
            if (store.isKeyEntry(alias) && keyPassword != null) {
                Key key = store.getKey(alias, keyPassword.toCharArray());
                text.append(block("PRIVATE KEY", key.getEncoded()));
                for (Certificate each : store.getCertificateChain(alias)) {
                    text.append(block("CERTIFICATE", each.getEncoded()));
                }
            } else if (store.isCertificateEntry(alias)) {
                text.append(block("CERTIFICATE", store.getCertificate(alias).getEncoded()));
            }
        }
        return text.toString();
    }

    private static String block(String what, byte[] bytes) {
        String lines = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(bytes);
        return "-----BEGIN " + what + "-----\n" + lines + "\n-----END " + what + "-----\n";
    }
}
