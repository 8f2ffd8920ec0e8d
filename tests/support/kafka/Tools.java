import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Apache Kafka's command-line tools one after the other in one JVM, since starting one costs more than most tools take.
 *
 * Usage: java -cp LIBS Tools.java
 *
 * Each line of the input is a JSON object: `main` is the class, `arguments` its arguments, `input` what it reads and
 * `seconds` how long it may take. Each line of the output tells how it ended: `code`, `output` and `errors`. The tools end
 * by Kafka's own `Exit`, which is told to end the thread of the tool instead of the JVM, and then the shutdown hooks run.
 */
public final class Tools {
    static final ObjectMapper JSON = new ObjectMapper();
    static final int TIMED_OUT = 124;
    static final int RUNNING = -1;
    static volatile int exitCode;
    static Set<Thread> hooksOfJava;

    /** Unwinds the thread of a tool. Some tools catch and report it, and then exit once more: the first code counts. */
    static final class Exited extends Error {
        Exited(int code) {
            super("", null, false, false);
            if (exitCode == RUNNING) {
                exitCode = code;
            }
        }

        @Override
        public void printStackTrace(PrintWriter writer) {}

        @Override
        public void printStackTrace(PrintStream stream) {}
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        PrintStream complaints = System.err;
        Thread.setDefaultUncaughtExceptionHandler((thread, thrown) -> thrown.printStackTrace(complaints));
        Exit.setExitProcedure((code, message) -> {
            throw new Exited(code);
        });
        Exit.setHaltProcedure((code, message) -> {
            throw new Exited(code);
        });
        hooksOfJava = Set.copyOf(shutdownHooks());
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.writeValueAsString(run(JSON.readTree(line))));
        }
        Runtime.getRuntime().halt(0);  // whatever a tool left running
    }

    static Map<String, Object> run(JsonNode request) throws Exception {
        String[] arguments = JSON.convertValue(request.get("arguments"), String[].class);
        Method main = Class.forName(request.get("main").asText()).getMethod("main", String[].class);
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        System.setIn(new ByteArrayInputStream(request.get("input").asText().getBytes(StandardCharsets.UTF_8)));
        System.setOut(new PrintStream(output, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(errors, true, StandardCharsets.UTF_8));
        exitCode = RUNNING;
        Thread thread = new Thread(() -> call(main, arguments), "tool");
        thread.setDaemon(true);
        thread.start();
        thread.join(request.get("seconds").asLong() * 1000);
        int code = exitCode;
        if (thread.isAlive()) {
            code = TIMED_OUT;
            for (StackTraceElement frame : thread.getStackTrace()) {
                System.err.println(frame);
            }
        } else {
            runHooks();
        }
        return Map.of(
            "code", code,
            "output", output.toString(StandardCharsets.UTF_8),
            "errors", errors.toString(StandardCharsets.UTF_8));
    }

    /** What the tool wanted to be done at the end of the JVM: most close their client there, and so send the rest. */
    static void runHooks() throws Exception {
        for (Thread hook : Set.copyOf(shutdownHooks())) {
            if (!hooksOfJava.contains(hook)) {
                Runtime.getRuntime().removeShutdownHook(hook);
                hook.start();
                hook.join();
            }
        }
    }

    @SuppressWarnings("unchecked")
    static Set<Thread> shutdownHooks() throws Exception {
        Field field = Class.forName("java.lang.ApplicationShutdownHooks").getDeclaredField("hooks");
        field.setAccessible(true);  // for this java is started with --add-opens java.base/java.lang=ALL-UNNAMED
        return ((Map<Thread, Thread>) field.get(null)).keySet();
    }

    /** A tool that returns ends with 0; one that throws prints that and ends with 1, as `java` does. */
    static void call(Method main, String[] arguments) {
        int code = 0;
        try {
            main.invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Exited)) {
                thrown.getCause().printStackTrace();
                code = 1;
            }
        } catch (IllegalAccessException impossible) {
            throw new AssertionError(impossible);
        }
        if (exitCode == RUNNING) {
            exitCode = code;
        }
    }
}
