import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Prints, as JSON lines, what a running Apache Kafka says about its topics: the records that consumers of both isolation
 * levels get, the offsets, the producers, and the transactions. Bytes are in base64.
 *
 * Usage: java -cp LIBS Witness.java BOOTSTRAP. Internal topics are left out.
 */
public final class Witness {
    static final ObjectMapper JSON = new ObjectMapper();
    static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    final String bootstrap;

    Witness(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] args) throws Exception {
        new Witness(args[0]).run();
    }

    void run() throws Exception {
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap))) {
            List<TopicPartition> partitions = new ArrayList<>();
            for (TopicDescription topic : admin.describeTopics(new TreeSet<>(admin.listTopics().names().get())).allTopicNames().get().values()) {
                for (TopicPartitionInfo partition : topic.partitions()) {
                    partitions.add(new TopicPartition(topic.name(), partition.partition()));
                }
            }
            for (TopicPartition partition : partitions) {
                tellOffsets(admin, partition);
                tellProducers(admin, partition);
            }
            tellTimes(admin, partitions);
            tellTransactions(admin);
            for (IsolationLevel isolation : IsolationLevel.values()) {
                tellRecords(admin, partitions, isolation);
            }
        }
    }

    void tellOffsets(Admin admin, TopicPartition partition) throws Exception {
        Map<String, Object> line = line("offsets", partition);
        line.put("log_start_offset", ask(admin, partition, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED).offset());
        line.put("high_watermark", ask(admin, partition, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED).offset());
        line.put("last_stable_offset", ask(admin, partition, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED).offset());
        ListOffsetsResultInfo newest = ask(admin, partition, OffsetSpec.maxTimestamp(), IsolationLevel.READ_UNCOMMITTED);
        line.put("max_timestamp", newest.timestamp());
        line.put("max_timestamp_offset", newest.offset());
        line.put("leader_epoch", ask(admin, partition, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED).leaderEpoch().orElse(-1));
        tell(line);
    }

    /** Where a consumer that seeks to a time begins: around the times that Workload.java writes. */
    void tellTimes(Admin admin, List<TopicPartition> partitions) throws Exception {
        for (int round = 1; round <= 2; round++) {
            for (long shift : new long[] {-1, 0, 1, 10, 11, 20, 45, 50, 51, 9_999, 10_000, 20_001, 40_000, 500_000, 500_001}) {
                long time = 1_700_000_000_000L + round * 3_600_000L + shift;
                Map<TopicPartition, OffsetSpec> wanted = new LinkedHashMap<>();
                partitions.forEach(partition -> wanted.put(partition, OffsetSpec.forTimestamp(time)));
                for (Map.Entry<TopicPartition, ListOffsetsResultInfo> entry : admin.listOffsets(wanted).all().get().entrySet()) {
                    Map<String, Object> line = line("time", entry.getKey());
                    line.put("asked", time);
                    line.put("offset", entry.getValue().offset());
                    line.put("timestamp", entry.getValue().timestamp());
                    tell(line);
                }
            }
        }
    }

    static ListOffsetsResultInfo ask(Admin admin, TopicPartition partition, OffsetSpec spec, IsolationLevel isolation) throws Exception {
        return admin.listOffsets(Map.of(partition, spec), new ListOffsetsOptions(isolation)).partitionResult(partition).get();
    }

    void tellProducers(Admin admin, TopicPartition partition) throws Exception {
        for (ProducerState producer : admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers()) {
            Map<String, Object> line = line("producer", partition);
            line.put("producer_id", producer.producerId());
            line.put("producer_epoch", producer.producerEpoch());
            line.put("last_sequence", producer.lastSequence());
            line.put("last_timestamp", producer.lastTimestamp());
            line.put("coordinator_epoch", producer.coordinatorEpoch().orElse(-1));
            line.put("transaction_start_offset", producer.currentTransactionStartOffset().orElse(-1));
            tell(line);
        }
    }

    void tellTransactions(Admin admin) throws Exception {
        List<String> names = new ArrayList<>();
        admin.listTransactions().all().get().forEach(listing -> names.add(listing.transactionalId()));
        for (Map.Entry<String, TransactionDescription> entry : admin.describeTransactions(names).all().get().entrySet()) {
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("kind", "transaction");
            line.put("transactional_id", entry.getKey());
            line.put("producer_id", entry.getValue().producerId());
            line.put("producer_epoch", entry.getValue().producerEpoch());
            line.put("state", entry.getValue().state().toString());
            tell(line);
        }
    }

    void tellRecords(Admin admin, List<TopicPartition> all, IsolationLevel isolation) throws Exception {
        List<TopicPartition> partitions = new ArrayList<>(all);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("isolation.level", isolation.toString().toLowerCase());
        properties.put("enable.auto.commit", "false");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            while (!partitions.isEmpty()) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    tellRecord(record, isolation);
                }
                partitions.removeIf(partition -> consumer.position(partition) >= ends.get(partition));
            }
        }
    }

    void tellRecord(ConsumerRecord<byte[], byte[]> record, IsolationLevel isolation) throws Exception {
        Map<String, Object> line = line("record", new TopicPartition(record.topic(), record.partition()));
        line.put("isolation", isolation.toString().toLowerCase());
        line.put("offset", record.offset());
        line.put("leader_epoch", record.leaderEpoch().orElse(-1));
        line.put("timestamp", record.timestamp());
        line.put("timestamp_type", record.timestampType().toString());
        line.put("key", base64(record.key()));
        line.put("value", base64(record.value()));
        List<Object> headers = new ArrayList<>();
        record.headers().forEach(header -> {
            List<Object> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(base64(header.value()));
            headers.add(pair);
        });
        line.put("headers", headers);
        tell(line);
    }

    static Map<String, Object> line(String kind, TopicPartition partition) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("kind", kind);
        line.put("topic", partition.topic());
        line.put("partition", partition.partition());
        return line;
    }

    static void tell(Map<String, Object> line) throws Exception {
        OUT.println(JSON.writeValueAsString(line));
    }

    static String base64(byte[] content) {
        return content == null ? null : Base64.getEncoder().encodeToString(content);
    }
}
