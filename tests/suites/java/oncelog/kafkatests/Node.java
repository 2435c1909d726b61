package oncelog.kafkatests;

import java.nio.file.Path;
import java.util.Map;

/**
 * The broker that a test stops and starts: one `oncelog serve`, or two over one PostgreSQL that take over from each other.
 *
 * <p>With the property `oncelog.takeovers` a broker that the test stops hands its lease to one that stands by. The test's
 * next start lets that one be its broker, and starts the other again, at its old address, to stand by.
 */
public final class Node {
    private final int id;
    private final Path directory;
    private Server server;
    private Server standby;
    private boolean hasBegun;

    public Node(int id, Map<String, String> settings, Path directory) {
        this.id = id;
        this.directory = directory;
        String schema = "kafkatests_" + Math.abs((long) directory.toString().hashCode()) + "_" + ProcessHandle.current().pid();
        this.server = new Server(id, settings, directory, schema);
        if (Boolean.getBoolean("oncelog.takeovers")) {
            this.standby = new Server(id + 100, settings, directory.resolveSibling(directory.getFileName() + "-2"), schema);
        }
    }

    public synchronized void start() {
        if (isRunning()) {
            return;
        }
        if (standby == null) {
            server.start();
            return;
        }
        if (hasBegun) {
            Notes.count("take-overs");
            Server next = standby;
            standby = server;
            server = next;
        }
        server.start();
        standby.start();
        hasBegun = true;
    }

    /** Stops the broker; the one that stands by, if there is one, leads from then on. */
    public synchronized void stop() {
        server.stop();
    }

    /** Stops both, at the end of a test. */
    public synchronized void close() {
        if (standby != null) {
            standby.stop();
        }
        server.stop();
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
        String own = "localhost:" + server.port(listener);
        return standby == null ? own : own + ",localhost:" + standby.port(listener);
    }

    int plaintextPort() {
        return server.plaintextPort();
    }

    public int port(String listener) {
        return server.port(listener);
    }
}
