package oncelog.kafkatests;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The broker that a test stops and starts: one `oncelog serve`, or two over one PostgreSQL that take over from each other.
 *
 * <p>With the property `oncelog.takeovers` a broker that the test stops hands its lease to one that stands by. The test's
 * next start lets that one be its broker, and starts the other again, at its old address, to stand by.
 */
public final class Node {
    private static final long PAUSE_MS = 3000;
    private static final long AT_ONCE_MS = 300;

    private final int id;
    private final Path directory;
    private final Map<String, LoginProxy> proxies;
    private Server server;
    private Server standby;
    private List<String> users = List.of();
    private boolean hasBegun;
    private long stoppedMs;

    /** `proxies` stand before the listeners with these names. */
    Node(int id, Map<String, String> settings, Path directory, Map<String, LoginProxy> proxies) {
        this.id = id;
        this.proxies = proxies;
        this.directory = directory;
        String schema = "kafkatests_" + Math.abs((long) directory.toString().hashCode()) + "_" + ProcessHandle.current().pid();
        this.server = new Server(id, settings, directory, schema);
        if (Boolean.getBoolean("oncelog.takeovers")) {
            Map<String, String> others = new TreeMap<>(settings);
            others.replaceAll((name, value) -> name.endsWith("listeners") ? value.replaceAll(":\\d+", ":0") : value);
            this.standby = new Server(id + 100, others, directory.resolveSibling(directory.getFileName() + "-2"), schema);
        }
    }

    /** Lets there be these users, as Kafka's storage tool takes them, from the first start on. */
    void makeUsers(List<String> all) {
        users = all;
    }

    public synchronized void start() {
        if (isRunning()) {
            return;
        }
        if (standby != null) {
            startBoth();
        } else {
            if (hasBegun) {
                pause();
            }
            server.start();
            proxies.forEach((name, proxy) -> proxy.leadTo(server.port(name)));
        }
        if (!hasBegun) {
            users.forEach(new Outside(this)::makeUser);
        }
        hasBegun = true;
    }

    /** Lets clients see that the broker is gone, where the test starts it at once: Kafka's takes seconds for that. */
    private void pause() {
        if (System.currentTimeMillis() - stoppedMs > AT_ONCE_MS) {
            return;
        }
        try {
            Thread.sleep(PAUSE_MS);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private void startBoth() {
        if (!proxies.isEmpty()) {
            throw new OutOfReach("two nodes with principals of the test's own");
        }
        if (hasBegun) {
            Notes.count("take-overs");
            Server next = standby;
            standby = server;
            server = next;
        }
        server.start();
        standby.start();
    }

    /** Stops the broker; the one that stands by, if there is one, leads from then on. */
    public synchronized void stop() {
        server.stop();
        stoppedMs = System.currentTimeMillis();
    }

    /** Stops both, at the end of a test. */
    public synchronized void close() {
        if (standby != null) {
            standby.stop();
        }
        server.stop();
        proxies.values().forEach(LoginProxy::close);
    }

    public synchronized boolean isRunning() {
        return server.isRunning();
    }

    boolean isIn(Path place) {
        return directory.startsWith(place);
    }

    public int id() {
        return id;
    }

    /** Returns the addresses of a listener, with commas between. */
    public String addresses(String listener) {
        String own = "localhost:" + port(listener);
        return standby == null ? own : own + ",localhost:" + standby.port(listener);
    }

    boolean hasTokens() {
        return server.has("delegation.token.secret.key");
    }

    int metricsPort() {
        return server.metricsPort();
    }

    /** Returns the settings of an Admin that may do everything. */
    Map<String, Object> outside() {
        return server.outside();
    }

    public int port(String listener) {
        LoginProxy proxy = proxies.get(server.listener(listener));
        return proxy == null ? server.port(listener) : proxy.port();
    }
}
