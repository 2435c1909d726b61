package oncelog.kafkatests;

import org.apache.kafka.common.security.auth.KafkaPrincipalBuilder;
import org.apache.kafka.common.security.auth.PlaintextAuthenticationContext;

import java.net.InetAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;

import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;

/** Settings of listeners with a login, where a cluster of Kafka's gets it from classes and files of the test's own JVM. */
final class Logins {
    private static final String OUTSIDE = "OUTSIDE";
    private static final String PROTOCOLS = "listener.security.protocol.map";
    private static final String BUILDER = "principal.builder.class";
    private static final String PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required";
    private static final Map<String, List<String>> MECHANISMS = Map.of(
        "PlainLoginModule", List.of("plain"),
        "ScramLoginModule", List.of("scram-sha-256", "scram-sha-512"),
        "OAuthBearerLoginModule", List.of("oauthbearer"));

    private Logins() { }

    /** Adds a listener at which the stand-in asks, where there are rights or tokens, or none takes it without a login. */
    static void addOutside(Map<String, String> settings) {
        boolean isOpen = names(settings).stream().anyMatch(name -> protocol(settings, name).equals("PLAINTEXT"));
        if (isOpen && !settings.containsKey("authorizer.class.name") && !settings.containsKey("delegation.token.secret.key")) {
            return;
        }
        settings.merge("listeners", OUTSIDE + "://localhost:0", Logins::and);
        settings.computeIfPresent("advertised.listeners", (name, value) -> and(value, OUTSIDE + "://localhost:0"));
        settings.put(PROTOCOLS, and(protocols(settings), OUTSIDE + ":SASL_PLAINTEXT"));
        takePlain(settings, OUTSIDE, "outside");
        settings.merge("super.users", "User:outside", (given, own) -> given + ";" + own);
    }

    /** Returns how the stand-in reaches a broker with these settings, all but the address. */
    static Map<String, Object> ofOutside(Map<String, String> settings) {
        if (!names(settings).contains(OUTSIDE)) {
            return Map.of();
        }
        return Map.of("security.protocol", "SASL_PLAINTEXT", "sasl.mechanism", "PLAIN",
            "sasl.jaas.config", PLAIN + " username=\"outside\" password=\"outside\";");
    }

    /** Returns the listener at which the stand-in asks. */
    static String outside(Map<String, String> settings) {
        List<String> names = names(settings);
        return names.contains(OUTSIDE) ? OUTSIDE
            : names.stream().filter(name -> protocol(settings, name).equals("PLAINTEXT")).findFirst().orElseThrow();
    }

    /** Lets listeners without a login have the principals of the test's own builder of principals, if it has one. */
    static Map<String, LoginProxy> principals(Map<String, String> settings) {
        Map<String, LoginProxy> proxies = new HashMap<>();
        for (String name : names(settings)) {
            String own = "listener.name." + name.toLowerCase(Locale.ROOT) + "." + BUILDER;
            String builder = settings.getOrDefault(own, settings.getOrDefault(BUILDER, "org.apache.kafka"));
            if (protocol(settings, name).equals("PLAINTEXT") && !builder.startsWith("org.apache.kafka")) {
                settings.remove(own);
                String user = principal(builder, name);
                proxies.put(name, new LoginProxy(user));
                settings.put(PROTOCOLS, protocols(settings).replace(name + ":PLAINTEXT", name + ":SASL_PLAINTEXT"));
                takePlain(settings, name, user);
            }
        }
        if (!proxies.isEmpty()) {
            settings.remove(BUILDER);
            settings.put("advertised.listeners", names(settings).stream()
                .filter(proxies::containsKey)
                .map(name -> name + "://localhost:" + proxies.get(name).port())
                .collect(Collectors.joining(",")));
        }
        return proxies;
    }

    private static String principal(String builder, String listener) {
        try {
            KafkaPrincipalBuilder made = (KafkaPrincipalBuilder) Class.forName(builder).getDeclaredConstructor().newInstance();
            return made.build(new PlaintextAuthenticationContext(InetAddress.getLoopbackAddress(), listener)).getName();
        } catch (ReflectiveOperationException error) {
            throw new OutOfReach(builder);
        }
    }

    /** Lets a listener log in one user, whose password is the name. */
    private static void takePlain(Map<String, String> settings, String listener, String user) {
        String prefix = "listener.name." + listener.toLowerCase(Locale.ROOT) + ".";
        settings.put(prefix + "sasl.enabled.mechanisms", "PLAIN");
        settings.put(prefix + "plain.connections.max.reauth.ms", "0");
        settings.put(prefix + "plain.sasl.jaas.config", PLAIN + " user_" + user + "=\"" + user + "\";");
    }

    /** Leaves out GSSAPI where a listener has another mechanism, too: the broker would not start. */
    static void leaveKerberosOut(Map<String, String> settings) {
        settings.replaceAll((name, value) -> {
            List<String> mechanisms = new ArrayList<>(List.of(value.split("\\s*,\\s*")));
            if (name.endsWith("sasl.enabled.mechanisms") && mechanisms.size() > 1 && mechanisms.remove("GSSAPI")) {
                Notes.count("mechanism left out: GSSAPI");
                return String.join(",", mechanisms);
            }
            return value;
        });
    }

    /** Adds the login modules of the JVM's configuration to listeners with SASL that have none of their own. */
    static void addModules(Map<String, String> settings) {
        for (String name : names(settings)) {
            String lower = name.toLowerCase(Locale.ROOT);
            if (protocol(settings, name).startsWith("SASL")) {
                AppConfigurationEntry[] own = entries(lower + ".KafkaServer");
                for (AppConfigurationEntry each : own == null ? entries("KafkaServer") : own) {
                    String module = each.getLoginModuleName();
                    for (String mechanism : MECHANISMS.getOrDefault(module.substring(module.lastIndexOf('.') + 1), List.of())) {
                        settings.putIfAbsent("listener.name." + lower + "." + mechanism + ".sasl.jaas.config", text(each));
                    }
                }
            }
        }
    }

    private static AppConfigurationEntry[] entries(String context) {
        try {
            AppConfigurationEntry[] found = Configuration.getConfiguration().getAppConfigurationEntry(context);
            return found == null && context.equals("KafkaServer") ? new AppConfigurationEntry[0] : found;
        } catch (SecurityException noFile) {
            return new AppConfigurationEntry[0];
        }
    }

    private static String text(AppConfigurationEntry entry) {
        String options = entry.getOptions().entrySet().stream()
            .map(each -> " " + each.getKey() + "=\"" + each.getValue() + "\"").collect(Collectors.joining());
        return entry.getLoginModuleName() + " required" + options + ";";
    }

    /** Returns the names of the listeners, in order. */
    static List<String> names(Map<String, String> settings) {
        List<String> names = new ArrayList<>();
        for (String each : settings.get("listeners").split(",")) {
            names.add(each.substring(0, each.indexOf("://")).trim());
        }
        return names;
    }

    private static String protocol(Map<String, String> settings, String listener) {
        for (String each : protocols(settings).split(",")) {
            if (each.trim().startsWith(listener + ":")) {
                return each.trim().substring(listener.length() + 1);
            }
        }
        return listener;
    }

    private static String protocols(Map<String, String> settings) {
        return settings.getOrDefault(PROTOCOLS, "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL");
    }

    private static String and(String one, String other) {
        return one + "," + other;
    }
}
