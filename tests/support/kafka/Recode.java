import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads messages with Apache Kafka's own classes, and writes them again.
 *
 * <p>Each line of the file that is named as the only argument is a class, a version and the message in hex. For each,
 * a line is printed: the bytes that Kafka writes for what it has read, in hex, and its fields as JSON.
 */
public class Recode {
    public static void main(String[] arguments) throws Exception {
        StringBuilder answers = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] words = line.split(" ", -1);
            Class<?> type = Class.forName(words[0]);
            short version = Short.parseShort(words[1]);
            Message message = (Message) type.getConstructor().newInstance();
            try {
                answers.append(recode(message, version, HexFormat.of().parseHex(words[2]))).append(' ');
                answers.append(toJson(type, message, version)).append('\n');
            } catch (Exception error) {
                throw new IllegalArgumentException(line, error);
            }
        }
        System.out.print(answers);
    }

    private static String recode(Message message, short version, byte[] data) {
        ByteBuffer frame = ByteBuffer.wrap(data);
        message.read(new ByteBufferAccessor(frame), version);
        if (frame.hasRemaining()) {
            return "left-over:" + frame.remaining();
        }
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer written = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(written), cache, version);
        return HexFormat.of().formatHex(written.array(), 0, written.position());
    }

    private static Object toJson(Class<?> type, Message message, short version) throws Exception {
        Class<?> converter = Class.forName(type.getName() + "JsonConverter");
        try {
            return converter.getMethod("write", type, short.class).invoke(null, message, version);
        } catch (InvocationTargetException error) {
            throw (Exception) error.getCause();
        }
    }
}
