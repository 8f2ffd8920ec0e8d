import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

/**
 * The assignors of Kafka's client, asked one by one.
 *
 * Usage: java -cp LIBS Assignors.java FILE
 *
 * Each line of the file is a group in JSON: the assignor's name, its topics with the racks of each partition, and its
 * members with the bytes by which they introduce themselves. A line is printed for each: what every member gets, in the
 * bytes that it is sent; null where the assignor itself fails, as the sticky ones do for some groups with racks.
 */
public final class Assignors {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        StringBuilder answers = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            Map<String, String> answer;
            try {
                answer = assign(JSON.readTree(line));
            } catch (NullPointerException bug) {
                answer = null;
            }
            answers.append(JSON.writeValueAsString(answer)).append('\n');
        }
        System.out.print(answers);
    }

    static Map<String, String> assign(JsonNode group) {
        Map<String, Subscription> members = new HashMap<>();
        group.get("members").fields().forEachRemaining(entry -> {
            byte[] introduction = Base64.getDecoder().decode(entry.getValue().get("subscription").asText());
            Subscription subscription = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(introduction));
            JsonNode instance = entry.getValue().get("instance");
            subscription.setGroupInstanceId(instance.isNull() ? Optional.empty() : Optional.of(instance.asText()));
            members.put(entry.getKey(), subscription);
        });
        Map<String, String> answer = new TreeMap<>();
        assignor(group.get("assignor").asText())
            .assign(cluster(group.get("topics")), new GroupSubscription(members))
            .groupAssignment()
            .forEach((member, assignment) -> {
                ByteBuffer bytes = ConsumerProtocol.serializeAssignment(assignment);
                answer.put(member, Base64.getEncoder().encodeToString(bytes.array()));
            });
        return answer;
    }

    static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(name);
        };
    }

    static Cluster cluster(JsonNode topics) {
        List<PartitionInfo> partitions = new ArrayList<>();
        Map<String, Node> nodes = new HashMap<>();
        topics.fields().forEachRemaining(entry -> {
            int number = 0;
            for (JsonNode racks : entry.getValue()) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : racks) {
                    replicas.add(nodes.computeIfAbsent(rack.asText(), name -> new Node(nodes.size(), "host", 1, name)));
                }
                if (replicas.isEmpty()) {
                    replicas.add(nodes.computeIfAbsent("", name -> new Node(nodes.size(), "host", 1, null)));
                }
                Node[] all = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(entry.getKey(), number++, all[0], all, all));
            }
        });
        return new Cluster("cluster", nodes.values(), partitions, Set.of(), Set.of());
    }
}
