package oncelog.kafkatests;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * One `oncelog serve`: its settings, directory and ports stay the same over restarts.
 *
 * <p>Its output goes to files and no thread reads it, because Kafka's tests look for threads that are left.
 */
final class Server {
    private static final Pattern READY = Pattern.compile("^oncelog ready (.+)$", Pattern.MULTILINE);
    private static final Pattern UNKNOWN = Pattern.compile("oncelog: unknown setting (.+) \\(from --override\\)");
    private static final long PATIENCE_MS = 60_000;

    private final int id;
    private final String schema;
    private final Path directory;
    private final Map<String, String> settings;
    private List<String> addresses = List.of();
    private Process process;
    private int lives;
    private int metricsPort;

    /** `schema` is where its records are, if they are in PostgreSQL. */
    Server(int id, Map<String, String> settings, Path directory, String schema) {
        this.id = id;
        this.schema = schema;
        this.settings = new TreeMap<>(settings);
        this.directory = directory;
    }

    synchronized void start() {
        if (isRunning()) {
            return;
        }
        try {
            Files.createDirectories(directory);
            metricsPort = freePort();
            boolean isUp = false;
            while (!isUp) {
                isUp = launch();
            }
        } catch (IOException error) {
            throw new IllegalStateException(error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
    }

    /** Returns false if a setting was taken out that the broker does not know, so that the next try gets further. */
    private boolean launch() throws IOException, InterruptedException {
        lives++;
        Path out = directory.resolve("out." + lives);
        Path err = directory.resolve("err." + lives);
        process = new ProcessBuilder(command())
            .redirectInput(ProcessBuilder.Redirect.from(Path.of("/dev/null").toFile()))
            .redirectOutput(out.toFile())
            .redirectError(err.toFile())
            .start();
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (System.currentTimeMillis() < deadline) {
            Matcher ready = READY.matcher(Files.readString(out));
            if (ready.find()) {
                addresses = List.of(ready.group(1).trim().split(" "));
                keepPorts();
                return true;
            }
            if (!process.isAlive()) {
                String why = Files.readString(err);
                Matcher unknown = UNKNOWN.matcher(why);
                if (unknown.find() && settings.remove(unknown.group(1)) != null) {
                    Notes.count("setting left out: " + unknown.group(1));
                    return false;
                }
                // Its last line: warnings stand before it.
                throw new IllegalStateException("oncelog serve ended: " + why.strip().substring(why.strip().lastIndexOf('\n') + 1));
            }
            process.waitFor(20, TimeUnit.MILLISECONDS);
        }
        process.destroyForcibly();
        throw new IllegalStateException("oncelog serve is not ready after " + PATIENCE_MS + " ms");
    }

    private List<String> command() {
        List<String> command = new ArrayList<>(List.of(System.getProperty("oncelog.serve", "oncelog serve").split(" ")));
        command.addAll(List.of("--node-id", Integer.toString(id), "--data-dir", directory.resolve("data").toString()));
        String where = System.getProperty("oncelog.storage", "");
        if (!where.isEmpty()) {
            command.addAll(List.of("--storage", where));
        }
        if (where.startsWith("postgres")) {
            command.addAll(List.of("--schema", schema));
        }
        command.addAll(List.of("--override", "oncelog.metrics.listen=127.0.0.1:" + metricsPort));
        settings.forEach((name, value) -> command.addAll(List.of("--override", name + "=" + value)));
        return command;
    }

    private static int freePort() throws IOException {
        try (ServerSocket any = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return any.getLocalPort();
        }
    }

    int metricsPort() {
        return metricsPort;
    }

    /** Puts the ports that the system chose into the settings, for the next start. */
    private void keepPorts() {
        String[] listeners = settings.get("listeners").split(",");
        for (int i = 0; i < listeners.length; i++) {
            listeners[i] = listeners[i].substring(0, listeners[i].indexOf("//") + 2) + addresses.get(i);
        }
        settings.put("listeners", String.join(",", listeners));
    }

    /** Stops it as SIGTERM does, or kills it after a while. */
    synchronized void stop() {
        if (process == null) {
            return;
        }
        process.destroy();
        try {
            if (!process.waitFor(20, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException error) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }

    synchronized boolean isRunning() {
        return process != null && process.isAlive();
    }

    boolean has(String setting) {
        return settings.containsKey(setting);
    }

    /** Returns the settings of an Admin that may do everything. */
    Map<String, Object> outside() {
        Map<String, Object> all = new HashMap<>(Logins.ofOutside(settings));
        all.put("bootstrap.servers", "localhost:" + port(Logins.outside(settings)));
        return all;
    }

    /** Returns the name of a listener as the broker has it, or of the first if there is none of that name. */
    String listener(String name) {
        List<String> names = Logins.names(settings);
        return names.stream().filter(name::equalsIgnoreCase).findFirst().orElse(names.get(0));
    }

    /** Returns the port of a listener, or of the first if there is none of that name. */
    int port(String listener) {
        if (addresses.isEmpty()) {
            return -1;
        }
        String address = addresses.get(Logins.names(settings).indexOf(listener(listener)));
        return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    }
}
