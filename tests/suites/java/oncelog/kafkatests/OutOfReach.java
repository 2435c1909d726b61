package oncelog.kafkatests;

/**
 * What a test reaches for inside the broker's JVM, which a broker in a process of its own does not show.
 *
 * <p>An error, because the loops of Kafka's tests that wait for a condition try again after an exception.
 */
public final class OutOfReach extends Error {
    private static final long serialVersionUID = 1;

    public OutOfReach(String what) {
        super("reaches into the JVM: " + what);
    }
}
