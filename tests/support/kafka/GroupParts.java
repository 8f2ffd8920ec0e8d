import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.Utils;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Parts of Apache Kafka's group coordinator, asked one by one.
 *
 * Usage: java -cp LIBS GroupParts.java assign | match | hash FILE
 *
 * Each line of the file is a question in JSON, and a line of JSON is printed for each. `assign` runs an assignor on a group,
 * whose members and topics it sees in the order of the file; `match` says which names a pattern of RE2 matches, or null if
 * it is not valid; `hash` computes the metadata hash of a group from topics.
 */
public final class GroupParts {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        StringBuilder answers = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(args[1]))) {
            JsonNode question = JSON.readTree(line);
            Object answer = switch (args[0]) {
                case "assign" -> assign(question);
                case "match" -> match(question);
                case "hash" -> hash(question);
                default -> throw new IllegalArgumentException(args[0]);
            };
            answers.append(JSON.writeValueAsString(answer)).append('\n');
        }
        System.out.print(answers);
    }

    static Object assign(JsonNode group) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        group.get("members").properties().forEach(entry -> {
            JsonNode member = entry.getValue();
            Set<Uuid> topics = new LinkedHashSet<>();
            member.get("topics").forEach(topic -> topics.add(uuid(topic.asText())));
            Map<Uuid, Set<Integer>> assigned = new LinkedHashMap<>();
            member.get("assigned").properties().forEach(each -> {
                Set<Integer> partitions = new TreeSet<>();
                each.getValue().forEach(partition -> partitions.add(partition.asInt()));
                assigned.put(uuid(each.getKey()), partitions);
                partitions.forEach(partition ->
                    owners.computeIfAbsent(uuid(each.getKey()), topic -> new HashMap<>()).put(partition, entry.getKey()));
            });
            Optional<String> instance = Optional.ofNullable(member.get("instance").textValue());
            members.put(entry.getKey(), new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), instance, topics, new Assignment(assigned)));
        });
        Map<Uuid, Integer> counts = new HashMap<>();
        group.get("partitions").properties().forEach(each -> counts.put(uuid(each.getKey()), each.getValue().asInt()));
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return counts.getOrDefault(topic, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
        SubscriptionType type = group.get("homogeneous").asBoolean() ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        ConsumerGroupPartitionAssignor assignor =
            group.get("assignor").asText().equals("range") ? new RangeAssignor() : new UniformAssignor();
        GroupSpecImpl spec = new GroupSpecImpl(Collections.unmodifiableMap(members), type, owners);
        Map<String, Map<String, Set<Integer>>> result = new TreeMap<>();
        assignor.assign(spec, describer).members().forEach((id, assignment) -> {
            Map<String, Set<Integer>> shown = new TreeMap<>();
            assignment.partitions().forEach((topic, partitions) -> shown.put(hex(topic), new TreeSet<>(partitions)));
            result.put(id, shown);
        });
        return result;
    }

    static Object match(JsonNode question) {
        Pattern pattern;
        try {
            pattern = Pattern.compile(question.get("pattern").asText());
        } catch (PatternSyntaxException error) {
            return null;
        }
        List<String> matched = new ArrayList<>();
        question.get("names").forEach(name -> {
            if (pattern.matcher(name.asText()).matches()) {
                matched.add(name.asText());
            }
        });
        return matched;
    }

    static Object hash(JsonNode question) {
        Map<String, Long> hashes = new HashMap<>();
        question.get("topics").forEach(topic ->
            hashes.put(topic.get("name").asText(), Utils.computeTopicHash(topic.get("name").asText(), new OneTopic(topic))));
        return Utils.computeGroupHash(hashes);
    }

    /** A cluster with one topic. */
    record OneTopic(JsonNode topic) implements CoordinatorMetadataImage, CoordinatorMetadataImage.TopicMetadata {
        @Override
        public String name() {
            return topic.get("name").asText();
        }

        @Override
        public Uuid id() {
            return uuid(topic.get("id").asText());
        }

        @Override
        public int partitionCount() {
            return topic.get("racks").size();
        }

        @Override
        public List<String> partitionRacks(int partition) {
            List<String> racks = new ArrayList<>();
            topic.get("racks").get(partition).forEach(rack -> racks.add(rack.asText()));
            return racks;
        }

        @Override
        public Set<Uuid> topicIds() {
            return Set.of(id());
        }

        @Override
        public Set<String> topicNames() {
            return Set.of(name());
        }

        @Override
        public Optional<CoordinatorMetadataImage.TopicMetadata> topicMetadata(String name) {
            return Optional.of(this);
        }

        @Override
        public Optional<CoordinatorMetadataImage.TopicMetadata> topicMetadata(Uuid id) {
            return Optional.of(this);
        }

        @Override
        public CoordinatorMetadataDelta emptyDelta() {
            throw new UnsupportedOperationException();
        }

        @Override
        public long version() {
            return 0;
        }

        @Override
        public boolean isEmpty() {
            return false;
        }
    }

    static Uuid uuid(String hex) {
        return new Uuid(Long.parseUnsignedLong(hex.substring(0, 16), 16), Long.parseUnsignedLong(hex.substring(16), 16));
    }

    static String hex(Uuid id) {
        return String.format("%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
    }
}
