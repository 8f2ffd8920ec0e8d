import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import kafka.server.KafkaConfig;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.ConfigSynonym;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.DynamicConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Prints, as JSON lines, how Apache Kafka declares its configs and what a running one says about them.
 *
 * Usage: java -cp LIBS Configs.java declare | describe BOOTSTRAP | judge FILE
 *
 * `declare` tells of every config its type, default, importance, bounds, update mode and synonyms. `describe` tells what a
 * fresh broker answers to DescribeConfigs about itself and about a topic, a group and a client metrics subscription that
 * this program makes. `judge` reads JSON lines with a resource and its overrides, and tells whether Kafka takes them.
 */
public final class Configs {
    static final ObjectMapper JSON = new ObjectMapper();
    static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "declare" -> declare();
            case "describe" -> describe(args[1]);
            case "judge" -> judge(Path.of(args[1]));
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    static void declare() throws Exception {
        Map<String, ConfigDef.ConfigKey> broker = new TreeMap<>(AbstractKafkaConfig.CONFIG_DEF.configKeys());
        Map<String, String> modes = DynamicBrokerConfig.dynamicConfigUpdateModes();
        for (Map.Entry<String, ConfigDef.ConfigKey> quota : DynamicConfig.Broker.configKeys().entrySet()) {
            broker.putIfAbsent(quota.getKey(), quota.getValue());  // these can only be set while the broker runs
        }
        for (ConfigDef.ConfigKey key : broker.values()) {
            Map<String, Object> line = declared("broker", key);
            boolean onlyDynamic = !AbstractKafkaConfig.CONFIG_DEF.configKeys().containsKey(key.name);
            line.put("update_mode", onlyDynamic ? "dynamic-only" : modes.getOrDefault(key.name, "read-only"));
            line.put("synonyms", DynamicBrokerConfig.brokerConfigSynonyms(key.name, false));
            tell(line);
        }
        for (ConfigDef.ConfigKey key : new TreeMap<>(LogConfig.configKeys()).values()) {
            Map<String, Object> line = declared("topic", key);
            List<List<Object>> synonyms = new ArrayList<>();
            for (ConfigSynonym each : ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.getOrDefault(key.name, List.of())) {
                boolean isTime = !each.converter().apply("1").equals("1");
                synonyms.add(List.of(each.name(), isTime ? Long.parseLong(each.converter().apply("1")) : 1L));
            }
            line.put("synonyms", synonyms);
            tell(line);
        }
        for (ConfigDef.ConfigKey key : new TreeMap<>(GroupConfig.CONFIG_DEF.configKeys()).values()) {
            Map<String, Object> line = declared("group", key);
            line.put("synonyms", GroupConfig.brokerSynonym(key.name).stream().toList());
            tell(line);
        }
        for (ConfigDef.ConfigKey key : new TreeMap<>(ClientMetricsConfigs.configDef().configKeys()).values()) {
            tell(declared("client-metrics", key));
        }
    }

    static Map<String, Object> declared(String resource, ConfigDef.ConfigKey key) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("resource", resource);
        line.put("name", key.name);
        line.put("type", key.type.name());
        line.put("has_default", key.hasDefault());
        line.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
        line.put("importance", key.importance.name());
        line.put("validator", key.validator == null ? null : key.validator.toString());
        line.put("internal", key.internalConfig);
        return line;
    }

    static void describe(String bootstrap) throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "declared");
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "declared");
        ConfigResource metrics = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "declared");
        ConfigResource node = new ConfigResource(ConfigResource.Type.BROKER, "1");
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(topic.name(), 1, (short) 1))).all().get();
            admin.incrementalAlterConfigs(Map.of(
                group, List.of(set("consumer.session.timeout.ms", "50000")),
                metrics, List.of(set("interval.ms", "1000")))).all().get();
            DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(true);
            // The controller answers when a change is committed; the broker that describes it follows a moment later.
            while (!is(admin, group, "consumer.session.timeout.ms", "50000") || !is(admin, metrics, "interval.ms", "1000")) {
                Thread.onSpinWait();
            }
            Map<ConfigResource, Config> told = admin.describeConfigs(List.of(topic, group, metrics, node), options).all().get();
            for (Map.Entry<ConfigResource, Config> resource : told.entrySet()) {
                for (ConfigEntry entry : resource.getValue().entries()) {
                    tell(described(resource.getKey(), entry));
                }
            }
        }
    }

    static boolean is(Admin admin, ConfigResource resource, String name, String value) throws Exception {
        ConfigEntry entry = admin.describeConfigs(List.of(resource)).all().get().get(resource).get(name);
        return entry != null && value.equals(entry.value());
    }

    static AlterConfigOp set(String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    }

    static Map<String, Object> described(ConfigResource resource, ConfigEntry entry) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("resource", resource.type().name().toLowerCase().replace('_', '-'));
        line.put("name", entry.name());
        line.put("type", entry.type().name());
        line.put("value", entry.value());
        line.put("source", entry.source().name());
        line.put("sensitive", entry.isSensitive());
        line.put("read_only", entry.isReadOnly());
        List<List<Object>> synonyms = new ArrayList<>();
        for (ConfigEntry.ConfigSynonym each : entry.synonyms()) {
            synonyms.add(Arrays.asList(each.name(), each.value(), each.source().name()));
        }
        line.put("synonyms", synonyms);
        return line;
    }

    static void judge(Path file) throws Exception {
        for (String text : Files.readAllLines(file)) {
            JsonNode asked = JSON.readTree(text);
            Map<String, String> overrides = JSON.convertValue(asked.get("overrides"), new TypeReference<Map<String, String>>() { });
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("resource", asked.get("resource").asText());
            line.put("overrides", overrides);
            try {
                judge(asked.get("resource").asText(), overrides);
                line.put("refused", null);
            } catch (RuntimeException fault) {
                line.put("refused", String.valueOf(fault.getMessage()));
            }
            tell(line);
        }
    }

    static void judge(String resource, Map<String, String> overrides) {
        switch (resource) {
            case "broker" -> broker(overrides);
            case "topic" -> LogConfig.validate(Map.of(), overrides, broker(Map.of()).extractLogConfigMap(), false);
            case "group" -> GroupConfig.validate(overrides, broker(Map.of()).groupCoordinatorConfig(), broker(Map.of()).shareGroupConfig());
            case "client-metrics" -> ClientMetricsConfigs.validate("judged", overrides);
            default -> throw new IllegalStateException(resource);
        }
    }

    static KafkaConfig broker(Map<String, String> overrides) {
        Map<String, String> settings = new TreeMap<>(Map.of(
            "process.roles", "broker",
            "node.id", "1",
            "log.dirs", "data",
            "controller.listener.names", "CONTROLLER",
            "controller.quorum.bootstrap.servers", "localhost:9093"));
        settings.putAll(overrides);
        return new KafkaConfig(settings);
    }

    static void tell(Map<String, Object> line) throws Exception {
        OUT.println(JSON.writeValueAsString(line));
    }
}
