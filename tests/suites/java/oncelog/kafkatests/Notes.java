package oncelog.kafkatests;

import java.util.Map;
import java.util.TreeMap;

/** Counts where the stand-in gave a test something else than it asked for. */
public final class Notes {
    private static final Map<String, Integer> COUNTS = new TreeMap<>();

    private Notes() { }

    public static synchronized void count(String what) {
        COUNTS.merge(what, 1, Integer::sum);
    }

    /** Returns the counts since the last call. */
    static synchronized Map<String, Integer> take() {
        Map<String, Integer> taken = new TreeMap<>(COUNTS);
        COUNTS.clear();
        return taken;
    }
}
