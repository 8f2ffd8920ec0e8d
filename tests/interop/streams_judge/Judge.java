import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Kafka Streams as the judge of what an operator means: records in, records out.
 *
 * Usage: java -cp LIBS Judge STATE_DIRECTORY
 *
 * Each line of the input is a JSON object: `pipeline` says what to build (see Topologies) and `records` are its input in
 * the order of their arrival, each `[topic, key, value, timestamp]`. The answer is a line with `outputs`, in their order:
 * `[key, value, timestamp]`; a value of null is a tombstone. Every case starts without state.
 */
public final class Judge {
    public static void main(String[] args) throws Exception {
        Path state = Path.of(args[0]);
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = cases.readLine(); line != null; line = cases.readLine()) {
            JsonNode asked = Json.MAPPER.readTree(line);
            ObjectNode answer = Json.MAPPER.createObjectNode();
            answer.set("outputs", judge(asked, Files.createTempDirectory(state, "case-")));
            answers.println(Json.MAPPER.writeValueAsString(answer));
        }
    }

    static ArrayNode judge(JsonNode asked, Path state) {
        Topology topology = Topologies.of(asked.get("pipeline"));
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, settings(state), Instant.EPOCH)) {
            Map<String, TestInputTopic<String, JsonNode>> inputs = new HashMap<>();
            for (JsonNode record : asked.get("records")) {
                inputs.computeIfAbsent(
                        record.get(0).asText(),
                        topic -> driver.createInputTopic(topic, new StringSerializer(), Json.SERDE.serializer()))
                    .pipeInput(Json.text(record.get(1)), Json.orNull(record.get(2)), record.get(3).asLong());
            }
            ArrayNode outputs = Json.MAPPER.createArrayNode();
            driver.createOutputTopic(Topologies.OUTPUT, Json.SERDE.deserializer(), Json.SERDE.deserializer())
                .readRecordsToList()
                .forEach(record -> outputs.add(shown(record)));
            return outputs;
        }
    }

    static ArrayNode shown(TestRecord<JsonNode, JsonNode> record) {
        return Json.MAPPER.createArrayNode().add(record.key()).add(record.value()).add(record.timestamp());
    }

    /** Nothing is held back: no cache, and what a window or a join has to say at its end is said with the next record. */
    static Properties settings(Path state) {
        Properties made = new Properties();
        made.put(StreamsConfig.APPLICATION_ID_CONFIG, "judge");
        made.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        made.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        made.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        made.put(
            StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
        made.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX, 0L);
        made.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0L);
        return made;
    }
}
