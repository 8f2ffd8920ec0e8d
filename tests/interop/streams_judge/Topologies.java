import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * The pipelines that are judged, by the names of their operators and with their parameters.
 *
 * Streams are `orders` and `payments`, tables `users`, `profiles` (both by user), `cities` and the global table `items`;
 * all keys are text and all values JSON objects. Results go to OUTPUT; their keys are JSON objects, those of windows with
 * `window_start` and `window_end`.
 */
final class Topologies {
    static final String OUTPUT = "out";
    static final Serde<String> TEXT = Serdes.String();
    static final ValueJoiner<JsonNode, JsonNode, JsonNode> BOTH = Json::both;

    private final StreamsBuilder builder = new StreamsBuilder();
    private final JsonNode asked;

    private Topologies(JsonNode asked) {
        this.asked = asked;
    }

    static Topology of(JsonNode asked) {
        Topologies made = new Topologies(asked);
        made.results().to(OUTPUT, Produced.with(Json.SERDE, Json.SERDE));
        return made.builder.build();
    }

    private KStream<JsonNode, JsonNode> results() {
        return switch (asked.get("operator").asText()) {
            case "aggregate" -> aggregate();
            case "count" -> plain("user", number(grouped("orders").count().toStream()));
            case "count-windows" -> plain("user", number(counted()));
            case "cogroup" -> plain("user", cogroup().toStream());
            case "join-streams" -> plain("user", joinedStreams());
            case "join-table" -> plain("user", joinedTable());
            case "join-global-table" -> plain("user", joinedGlobalTable());
            case "join-tables" -> plain("user", joinedTables().toStream());
            case "join-foreign-key" -> plain("user", joinedForeignKey().toStream());
            case "filter-table" -> plain("user", adults(table("users")).toStream());
            case "to-table" -> plain("user", toTable().toStream());
            case "group-table" -> plain("city", groupedTable().toStream());
            default -> throw new IllegalArgumentException("no operator " + asked.get("operator"));
        };
    }

    private KStream<String, JsonNode> stream(String topic) {
        return builder.stream(topic, Consumed.with(TEXT, Json.SERDE));
    }

    private KTable<String, JsonNode> table(String topic) {
        return builder.table(topic, Consumed.with(TEXT, Json.SERDE));
    }

    private KGroupedStream<String, JsonNode> grouped(String topic) {
        return stream(topic).groupByKey(Grouped.with(TEXT, Json.SERDE));
    }

    // --- aggregates of streams

    private KStream<JsonNode, JsonNode> aggregate() {
        // Without a window Kafka Streams leaves rows without a value out by itself; to windows it would give them.
        KGroupedStream<String, JsonNode> orders = asked.path("window").isMissingNode()
            ? grouped("orders")
            : stream("orders").filter((user, order) -> order != null).groupByKey(Grouped.with(TEXT, Json.SERDE));
        return switch (asked.path("window").asText()) {
            case "" -> plain("user", folded(orders).toStream());
            case "tumbling" -> windows(folded(orders.windowedBy(time(ms("size_ms")))), 0);
            case "hopping" -> windows(folded(orders.windowedBy(time(ms("size_ms")).advanceBy(ms("hop_ms")))), 0);
            case "sliding" -> windows(
                folded(orders.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(ms("size_ms"), ms("grace_ms")))), 0);
            // Kafka's sessions end with their last row, ours when the gap after it is over.
            case "session" -> windows(
                folded(orders.windowedBy(SessionWindows.ofInactivityGapAndGrace(ms("size_ms"), ms("grace_ms")))),
                ms("size_ms").toMillis());
            default -> throw new IllegalArgumentException("no window " + asked.get("window"));
        };
    }

    private TimeWindows time(Duration size) {
        return TimeWindows.ofSizeAndGrace(size, ms("grace_ms"));
    }

    private boolean reduces() {
        return asked.path("fold").asText().equals("reduce");
    }

    private KTable<String, JsonNode> folded(KGroupedStream<String, JsonNode> rows) {
        return reduces()
            ? rows.reduce(Folds::reduced, Materialized.with(TEXT, Json.SERDE))
            : rows.aggregate(
                Folds::nothing, (key, row, before) -> Folds.summary(before, row), Materialized.with(TEXT, Json.SERDE));
    }

    private KTable<Windowed<String>, JsonNode> folded(TimeWindowedKStream<String, JsonNode> rows) {
        return reduces()
            ? rows.reduce(Folds::reduced, Materialized.with(TEXT, Json.SERDE))
            : rows.aggregate(
                Folds::nothing, (key, row, before) -> Folds.summary(before, row), Materialized.with(TEXT, Json.SERDE));
    }

    private KTable<Windowed<String>, JsonNode> folded(SessionWindowedKStream<String, JsonNode> rows) {
        return reduces()
            ? rows.reduce(Folds::reduced, Materialized.with(TEXT, Json.SERDE))
            : rows.aggregate(
                Folds::nothing,
                (key, row, before) -> Folds.summary(before, row),
                (key, one, other) -> Folds.merged(one, other),
                Materialized.with(TEXT, Json.SERDE));
    }

    private KStream<JsonNode, JsonNode> windows(KTable<Windowed<String>, JsonNode> table, long addedToEnd) {
        boolean isFinal = asked.get("emit").asText().equals("final");
        KTable<Windowed<String>, JsonNode> shown = isFinal
            ? table.suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()))
            : table;
        return shown.toStream().map((key, value) -> {
            ObjectNode made = Json.MAPPER.createObjectNode().put("user", key.key());
            made.put("window_start", key.window().start()).put("window_end", key.window().end() + addedToEnd);
            return KeyValue.pair(made, value);
        });
    }

    /** Of each window its key and how many rows it has, those without a value among them. */
    private KStream<String, Long> counted() {
        return grouped("orders").windowedBy(time(ms("size_ms"))).count().toStream().selectKey((key, n) -> key.key());
    }

    private static KStream<String, JsonNode> number(KStream<String, Long> counts) {
        return counts.mapValues(n -> Json.MAPPER.createObjectNode().put("n", n));
    }

    private KTable<String, JsonNode> cogroup() {
        return grouped("orders").<JsonNode>cogroup((key, order, before) -> Folds.ordered(before, order))
            .cogroup(grouped("payments"), (key, payment, before) -> Folds.paid(before, payment))
            .aggregate(Folds::nothing, Materialized.with(TEXT, Json.SERDE));
    }

    // --- joins

    private KStream<String, JsonNode> joinedStreams() {
        JoinWindows within = JoinWindows.ofTimeDifferenceAndGrace(ms("before_ms"), ms("grace_ms"))
            .before(ms("before_ms")).after(ms("after_ms"));
        StreamJoined<String, JsonNode, JsonNode> with = StreamJoined.with(TEXT, Json.SERDE, Json.SERDE);
        KStream<String, JsonNode> orders = stream("orders");
        KStream<String, JsonNode> payments = stream("payments");
        return switch (how()) {
            case "inner" -> orders.join(payments, BOTH, within, with);
            case "left" -> orders.leftJoin(payments, BOTH, within, with);
            default -> orders.outerJoin(payments, BOTH, within, with);
        };
    }

    private KStream<String, JsonNode> joinedTable() {
        Joined<String, JsonNode, JsonNode> with = Joined.with(TEXT, Json.SERDE, Json.SERDE);
        return how().equals("inner")
            ? stream("orders").join(table("users"), BOTH, with)
            : stream("orders").leftJoin(table("users"), BOTH, with);
    }

    private KStream<String, JsonNode> joinedGlobalTable() {
        GlobalKTable<String, JsonNode> items = builder.globalTable(
            "items", Consumed.with(TEXT, Json.SERDE), Materialized.as(Stores.inMemoryKeyValueStore("items")));
        // Kafka Streams asks for the item of a tombstone, too, before it leaves it out.
        KeyValueMapper<String, JsonNode, String> item = (user, order) -> order == null ? null : Json.text(order.get("item"));
        return how().equals("inner")
            ? stream("orders").join(items, item, BOTH)
            : stream("orders").leftJoin(items, item, BOTH);
    }

    private KTable<String, JsonNode> joinedTables() {
        KTable<String, JsonNode> users = table("users");
        KTable<String, JsonNode> profiles = table("profiles");
        return switch (how()) {
            case "inner" -> users.join(profiles, BOTH);
            case "left" -> users.leftJoin(profiles, BOTH);
            default -> users.outerJoin(profiles, BOTH);
        };
    }

    private KTable<String, JsonNode> joinedForeignKey() {
        Materialized<String, JsonNode, KeyValueStore<Bytes, byte[]>> kept = Materialized.with(TEXT, Json.SERDE);
        return how().equals("inner")
            ? table("users").join(table("cities"), user -> Json.text(user.get("city")), BOTH, kept)
            : table("users").leftJoin(table("cities"), user -> Json.text(user.get("city")), BOTH, kept);
    }

    // --- tables

    private static KTable<String, JsonNode> adults(KTable<String, JsonNode> users) {
        return users.filter((user, row) -> row.get("age").asLong() >= 18);
    }

    private KTable<String, JsonNode> toTable() {
        return stream("orders").toTable(Materialized.with(TEXT, Json.SERDE));
    }

    private KTable<String, JsonNode> groupedTable() {
        return table("users")
            .groupBy((user, row) -> KeyValue.pair(Json.text(row.get("city")), row), Grouped.with(TEXT, Json.SERDE))
            .aggregate(
                Folds::nothing,
                (city, row, before) -> Folds.entered(before, row),
                (city, row, before) -> Folds.left(before, row),
                Materialized.with(TEXT, Json.SERDE));
    }

    // --- parameters and results

    private String how() {
        return asked.get("how").asText();
    }

    private Duration ms(String parameter) {
        return Duration.ofMillis(asked.get(parameter).asLong());
    }

    private static KStream<JsonNode, JsonNode> plain(String column, KStream<String, JsonNode> rows) {
        return rows.map((key, value) -> KeyValue.pair(Json.MAPPER.createObjectNode().put(column, key), value));
    }
}
