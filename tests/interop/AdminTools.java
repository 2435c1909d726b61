import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import org.apache.kafka.common.utils.Exit;

/** Kafka's own tools in one process: each line a class and its arguments, tab-separated; each answer what it printed. */
public class AdminTools {
    /** Ends a tool where it would end its process; some print what they catch, so it is nothing. */
    static class Ended extends RuntimeException {
        Ended() {
            super("", null, false, false);
        }

        @Override
        public String toString() {
            return "";
        }
    }

    static Integer exitCode;

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
        Exit.setExitProcedure((code, message) -> {
            exitCode = exitCode == null ? code : exitCode;
            throw new Ended();
        });
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] words = line.split("\t", -1);
            String[] arguments = java.util.Arrays.copyOfRange(words, 1, words.length);
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream stream = new PrintStream(printed, true, "UTF-8");
            System.setOut(stream);
            System.setErr(stream);
            exitCode = null;
            try {
                Runnable run = () -> call(words[0], arguments);
                // Scala's Console keeps the stream that it found first, unless it is told otherwise.
                scala.Console.withOut(stream, () -> {
                    run.run();
                    return null;
                });
            } catch (Ended ended) {
                // What it printed and its exit code are all there is to tell.
            }
            stream.flush();
            printed.writeBytes(("\nexit code " + (exitCode == null ? 0 : exitCode)).getBytes("UTF-8"));
            answers.println(printed.toString("UTF-8").replace("\\", "\\\\").replace("\n", "\\n"));
            answers.flush();
        }
    }

    static void call(String name, String[] arguments) {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (thrown.getCause() instanceof Ended) {
                throw (Ended) thrown.getCause();
            }
            System.out.println("thrown: " + thrown.getCause());
        } catch (ReflectiveOperationException wrong) {
            throw new IllegalStateException(wrong);
        }
    }
}
