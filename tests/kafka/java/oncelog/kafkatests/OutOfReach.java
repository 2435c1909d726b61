package oncelog.kafkatests;

/** What a test reaches for inside the broker's JVM, which a broker in a process of its own does not show. */
public final class OutOfReach extends RuntimeException {
    public OutOfReach(String what) {
        super("reaches into the JVM: " + what);
    }
}
