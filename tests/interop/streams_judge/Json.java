import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** Keys and values as JSON. A null of JSON is no value. */
final class Json {
    static final ObjectMapper MAPPER = new ObjectMapper();
    static final Serde<JsonNode> SERDE = Serdes.serdeFrom((topic, node) -> bytes(node), (topic, data) -> node(data));

    private Json() {}

    static String text(JsonNode node) {
        return node == null || node.isNull() ? null : node.asText();
    }

    static JsonNode orNull(JsonNode node) {
        return node.isNull() ? null : node;
    }

    /** The fields of both; a side that is missing has none. */
    static JsonNode both(JsonNode left, JsonNode right) {
        ObjectNode made = MAPPER.createObjectNode();
        if (left != null) {
            made.setAll((ObjectNode) left);
        }
        if (right != null) {
            made.setAll((ObjectNode) right);
        }
        return made;
    }

    private static byte[] bytes(JsonNode node) {
        try {
            return node == null ? null : MAPPER.writeValueAsBytes(node);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static JsonNode node(byte[] data) {
        try {
            return data == null ? null : MAPPER.readTree(data);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
