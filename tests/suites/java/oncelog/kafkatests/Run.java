package oncelog.kafkatests;

import org.junit.platform.engine.FilterResult;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.ClassSource;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.PostDiscoveryFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

import com.fasterxml.jackson.databind.ObjectMapper;

import java.io.IOException;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Runs the tests of classes, or only `class#method`, and writes a line of JSON when one begins and when it ends. */
public final class Run implements TestExecutionListener {
    private final PrintStream results;
    private final ObjectMapper json = new ObjectMapper();
    private final Map<String, Long> starts = new HashMap<>();

    private Run(PrintStream results) {
        this.results = results;
    }

    public static void main(String[] arguments) {
        // Standard output is the tests' own; theirs goes to standard error.
        PrintStream results = System.out;
        System.setOut(System.err);
        if (!"kafka".equals(System.getProperty("oncelog.broker"))) {
            Harness.install();
        }
        LauncherDiscoveryRequestBuilder request = LauncherDiscoveryRequestBuilder.request();
        Set<String> methods = new HashSet<>();
        for (String each : arguments) {
            String[] parts = each.split("#");
            request.selectors(DiscoverySelectors.selectClass(parts[0]));
            methods.addAll(Arrays.asList(parts).subList(1, parts.length));
        }
        // By its name alone: a selector of a method wants the types of its parameters, too.
        request.filters((PostDiscoveryFilter) test -> FilterResult.includedIf(methods.isEmpty()
            || !(test.getSource().orElse(null) instanceof MethodSource method) || methods.contains(method.getMethodName())));
        LauncherDiscoveryRequest built = request
            .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true")
            .configurationParameter("junit.jupiter.execution.timeout.default", System.getProperty("oncelog.limit", "120 s"))
            .configurationParameter("junit.jupiter.execution.timeout.thread.mode.default", "SEPARATE_THREAD")
            .build();
        LauncherFactory.create().execute(built, new Run(results));
        results.flush();
        System.exit(0);
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        starts.put(test.getUniqueId(), System.currentTimeMillis());
        if (test.isTest()) {
            write(test, "started", null);
        }
    }

    @Override
    public void executionSkipped(TestIdentifier test, String why) {
        write(test, "skipped", null);
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        boolean failed = result.getStatus() != TestExecutionResult.Status.SUCCESSFUL;
        if (test.isTest() || failed) {
            write(test, failed ? "failed" : "passed", result.getThrowable().orElse(null));
        }
    }

    private void write(TestIdentifier test, String status, Throwable why) {
        Map<String, Object> line = new LinkedHashMap<>();
        test.getSource().ifPresent(source -> {
            if (source instanceof MethodSource method) {
                line.put("class", method.getClassName());
                line.put("method", method.getMethodName());
            } else if (source instanceof ClassSource whole) {
                line.put("class", whole.getClassName());
            }
        });
        line.put("id", test.getUniqueId());
        line.put("name", test.getDisplayName());
        line.put("status", status);
        line.put("ms", System.currentTimeMillis() - starts.getOrDefault(test.getUniqueId(), System.currentTimeMillis()));
        if (!status.equals("started")) {
            line.put("notes", Notes.take());
        }
        if (why != null) {
            line.put("why", chain(why));
            why.printStackTrace();
        }
        try {
            // The tests print into the same file, and leave lines without an end.
            results.println("oncelog-test " + json.writeValueAsString(line));
            results.flush();
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Returns what was thrown, with its causes and what was suppressed, one line each. */
    private static List<String> chain(Throwable why) {
        List<String> lines = new ArrayList<>();
        for (Throwable each = why; each != null && lines.size() < 12; each = each.getCause()) {
            String message = String.valueOf(each.getMessage());
            lines.add(each.getClass().getName() + ": " + message.substring(0, Math.min(message.length(), 400)));
            for (StackTraceElement frame : each.getStackTrace()) {
                if (frame.getClassName().endsWith("Test") || frame.getClassName().contains("Test$")) {
                    lines.add("  at " + frame);
                    break;
                }
            }
            for (Throwable other : each.getSuppressed()) {
                lines.add("suppressed " + other);
            }
        }
        return lines;
    }
}
