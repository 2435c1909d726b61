package oncelog.kafkatests;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/**
 * A listener without a login in front of one with SASL/PLAIN: it logs in for each connection, always as the same user.
 *
 * <p>A broker of Kafka's gets the same from a `principal.builder.class` of the test's own, which another process cannot load.
 */
final class LoginProxy {
    private static final short HANDSHAKE = 17;
    private static final short AUTHENTICATE = 36;

    private final String user;
    private final ServerSocket server;
    private volatile int broker;

    LoginProxy(String user) {
        this.user = user;
        try {
            server = new ServerSocket(0, 200, InetAddress.getByName("localhost"));
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
        daemon(this::accept);
    }

    int port() {
        return server.getLocalPort();
    }

    /** Names the port of the broker's listener, once it is known. */
    void leadTo(int port) {
        broker = port;
    }

    void close() {
        try {
            server.close();
        } catch (IOException gone) {
            return;
        }
    }

    private void accept() {
        while (!server.isClosed()) {
            try {
                Socket client = server.accept();
                daemon(() -> serve(client));
            } catch (IOException closed) {
                return;
            }
        }
    }

    private void serve(Socket client) {
        try (client; Socket there = new Socket("localhost", broker)) {
            client.setTcpNoDelay(true);
            there.setTcpNoDelay(true);
            logIn(there);
            daemon(() -> pump(there, client));
            pump(client, there);
        } catch (IOException ended) {
            return;
        }
    }

    private void logIn(Socket there) throws IOException {
        ask(there, HANDSHAKE, 1, body -> body.writeUTF("PLAIN"));
        byte[] token = ("\0" + user + "\0" + user).getBytes(StandardCharsets.UTF_8);
        ask(there, AUTHENTICATE, 0, body -> {
            body.writeInt(token.length);
            body.write(token);
        });
    }

    private interface Body {
        void write(DataOutputStream out) throws IOException;
    }

    /** Sends a request whose response begins with an error, and reads that. */
    private static void ask(Socket there, short api, int version, Body body) throws IOException {
        ByteArrayOutputStream frame = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(frame);
        out.writeShort(api);
        out.writeShort(version);
        out.writeInt(0);
        out.writeShort(-1);
        body.write(out);
        DataOutputStream wire = new DataOutputStream(there.getOutputStream());
        wire.writeInt(frame.size());
        frame.writeTo(wire);
        wire.flush();
        DataInputStream in = new DataInputStream(there.getInputStream());
        byte[] response = new byte[in.readInt()];
        in.readFully(response);
        if (response[4] != 0 || response[5] != 0) {
            throw new IOException("the broker refuses the login");
        }
    }

    private static void pump(Socket from, Socket to) {
        try (from; to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            in.transferTo(out);
        } catch (IOException ended) {
            return;
        }
    }

    private static void daemon(Runnable work) {
        Thread thread = new Thread(work, "oncelog-login");
        thread.setDaemon(true);
        thread.start();
    }
}
