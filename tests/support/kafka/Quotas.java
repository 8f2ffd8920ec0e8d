import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity.ConfigEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.ControllerMutationQuota;
import org.apache.kafka.server.quota.ControllerMutationQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

/**
 * Apache Kafka's quota managers, told stories on a clock that stands still.
 *
 * Usage: java -cp LIBS Quotas.java FILE
 *
 * Each line of the file is a story in JSON: windows and steps. For each story a line is printed with the answers to its
 * steps: nothing for a quota that is set, the throttle time of bytes that were produced, and for changes of topics which
 * of them were granted and the throttle time at the end.
 */
public final class Quotas {
    static final ObjectMapper JSON = new ObjectMapper();
    static final String DEFAULT = "<default>";

    static final class Standing implements Time {
        volatile long now;

        public long milliseconds() {
            return now;
        }

        public long nanoseconds() {
            return now * 1_000_000;
        }

        public void sleep(long ms) {
            now += ms;
        }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    public static void main(String[] args) throws Exception {
        StringBuilder answers = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            answers.append(JSON.writeValueAsString(tell(JSON.readTree(line)))).append('\n');
        }
        System.out.print(answers);
        System.out.flush();
        System.exit(0); // the managers have threads
    }

    static List<Object> tell(JsonNode story) throws Exception {
        Standing time = new Standing();
        ClientQuotaManagerConfig config =
            new ClientQuotaManagerConfig(story.get("windows").get(0).asInt(), story.get("windows").get(1).asInt());
        Metrics metrics = new Metrics(new MetricConfig(), new ArrayList<>(), time);
        ClientQuotaManager produce = new ClientQuotaManager(config, metrics, QuotaType.PRODUCE, time, "");
        ControllerMutationQuotaManager mutations =
            new ControllerMutationQuotaManager(config, metrics, time, "", Optional.empty());
        List<Object> answers = new ArrayList<>();
        for (JsonNode step : story.get("steps")) {
            time.now = step.get("at").asLong();
            answers.add(switch (step.get("do").asText()) {
                case "quota" -> setQuota(step, produce, mutations);
                case "produce" -> produce.maybeRecordAndGetThrottleTimeMs(
                    session(step), step.get("client").asText(), step.get("bytes").asDouble(), time.now);
                case "change" -> change(step, mutations);
                default -> throw new IllegalArgumentException(step.toString());
            });
        }
        return answers;
    }

    static Object setQuota(JsonNode step, ClientQuotaManager... managers) {
        Optional<ConfigEntity> user = Optional.ofNullable(step.get("user").textValue()).map(name ->
            name.equals(DEFAULT) ? ClientQuotaManager.DEFAULT_USER_ENTITY : new ClientQuotaManager.UserEntity(name));
        Optional<ConfigEntity> client = Optional.ofNullable(step.get("client").textValue()).map(name ->
            name.equals(DEFAULT) ? ClientQuotaManager.DEFAULT_USER_CLIENT_ID : new ClientQuotaManager.ClientIdEntity(name));
        for (ClientQuotaManager manager : managers) {
            manager.updateQuota(user, client, Optional.of(Quota.upperBound(step.get("limit").asDouble())));
        }
        return null;
    }

    static Object change(JsonNode step, ControllerMutationQuotaManager manager) throws Exception {
        String client = step.get("client").asText();
        ControllerMutationQuota quota = step.get("strict").asBoolean()
            ? manager.newStrictQuotaFor(session(step), client)
            : manager.newPermissiveQuotaFor(session(step), client);
        List<Object> granted = new ArrayList<>();
        for (JsonNode partitions : step.get("partitions")) {
            try {
                quota.record(partitions.asDouble());
                granted.add(true);
            } catch (ThrottlingQuotaExceededException error) {
                granted.add(false);
            }
        }
        return List.of(granted, quota.throttleTime());
    }

    static Session session(JsonNode step) throws Exception {
        KafkaPrincipal principal = new KafkaPrincipal(KafkaPrincipal.USER_TYPE, step.get("user").asText());
        return new Session(principal, InetAddress.getLoopbackAddress());
    }
}
