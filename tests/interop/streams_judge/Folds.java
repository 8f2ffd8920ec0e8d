import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** What is computed per group. The Python side says the same by its own means. */
final class Folds {
    private Folds() {}

    /** Before the first row: nothing is counted yet, and there is neither a lowest nor a highest. */
    static JsonNode nothing() {
        return Json.MAPPER.createObjectNode().put("n", 0).put("total", 0);
    }

    /** How many rows, and sum, lowest and highest of their amounts. */
    static JsonNode summary(JsonNode before, JsonNode row) {
        long amount = row.get("amount").asLong();
        ObjectNode made = before.deepCopy();
        made.put("n", before.get("n").asLong() + 1);
        made.put("total", before.get("total").asLong() + amount);
        made.put("low", before.has("low") ? Math.min(before.get("low").asLong(), amount) : amount);
        made.put("high", before.has("high") ? Math.max(before.get("high").asLong(), amount) : amount);
        return made;
    }

    /** Two summaries of sessions that have become one. */
    static JsonNode merged(JsonNode one, JsonNode other) {
        if (!one.has("low") || !other.has("low")) {
            return one.has("low") ? one : other;
        }
        ObjectNode made = Json.MAPPER.createObjectNode();
        made.put("n", one.get("n").asLong() + other.get("n").asLong());
        made.put("total", one.get("total").asLong() + other.get("total").asLong());
        made.put("low", Math.min(one.get("low").asLong(), other.get("low").asLong()));
        made.put("high", Math.max(one.get("high").asLong(), other.get("high").asLong()));
        return made;
    }

    /** Of two rows one, and it can be told in which order they came. */
    static JsonNode reduced(JsonNode one, JsonNode other) {
        ObjectNode made = Json.MAPPER.createObjectNode();
        made.put("amount", (31 * one.get("amount").asLong() + other.get("amount").asLong()) % 1_000_003);
        made.put("item", one.get("item").asText() + other.get("item").asText());
        return made;
    }

    /** Of orders and payments together. */
    static JsonNode ordered(JsonNode before, JsonNode order) {
        return added(added(before, "n", 1), "total", order.get("amount").asLong());
    }

    static JsonNode paid(JsonNode before, JsonNode payment) {
        return added(added(before, "n", 1), "total", -payment.get("paid").asLong());
    }

    /** Rows of a table enter their group and leave it: a count and a sum of ages. */
    static JsonNode entered(JsonNode before, JsonNode row) {
        return added(added(before, "n", 1), "total", row.get("age").asLong());
    }

    static JsonNode left(JsonNode before, JsonNode row) {
        return added(added(before, "n", -1), "total", -row.get("age").asLong());
    }

    private static JsonNode added(JsonNode before, String field, long amount) {
        ObjectNode made = before.deepCopy();
        return made.put(field, before.get(field).asLong() + amount);
    }
}
