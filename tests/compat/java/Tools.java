import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.util.Arrays;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main of one class after the other, which spares starting a JVM for each. A line is the name of a class and its
 * arguments, between tabs; the answer is a line with the exit code and, in base64, what was printed.
 */
public final class Tools {
    private static Integer code;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        Exit.setExitProcedure((status, message) -> end(status));
        Exit.setHaltProcedure((status, message) -> end(status));
        var commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            var said = new ByteArrayOutputStream();
            System.setOut(new PrintStream(said, true));
            System.setErr(System.out);
            run(line.split("\t"));
            System.out.flush();
            answers.println(code + " " + Base64.getEncoder().encodeToString(said.toByteArray()));
            answers.flush();
        }
        System.exit(0);
    }

    /** The first code counts: some tools catch what is thrown here, and end once more. */
    private static void end(int status) {
        code = code == null ? status : code;
        throw new IllegalStateException("ended");
    }

    private static void run(String[] words) throws Exception {
        Object own = Arrays.copyOfRange(words, 1, words.length);
        code = null;
        try {
            Class.forName(words[0]).getMethod("main", String[].class).invoke(null, own);
            code = code == null ? 0 : code;
        } catch (InvocationTargetException error) {
            if (code == null) {
                error.getCause().printStackTrace(System.out);
                code = 1;
            }
        }
    }
}
