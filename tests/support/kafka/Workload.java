import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes one record of every kind that Headrace must be able to read into a running Apache Kafka, and prints what Kafka
 * acknowledged as JSON lines (bytes in base64).
 *
 * Usage: java -cp LIBS Workload.java first|second BOOTSTRAP DATA_DIRECTORY. The second round runs after a restart of the
 * broker, so its records carry the next leader epoch. Times are given, not taken from the clock: segments with segment.ms
 * roll by record time, so both rounds put their batches into the same segments on every run.
 */
public final class Workload {
    static final long HOUR = 3_600_000L;
    static final long BASE_TIME = 1_700_000_000_000L;
    static final String[] CODECS = {"gzip", "snappy", "lz4", "zstd"};
    static final ObjectMapper JSON = new ObjectMapper();
    static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    final String bootstrap;
    final Path data;
    final int round;

    Workload(String bootstrap, Path data, int round) {
        this.bootstrap = bootstrap;
        this.data = data;
        this.round = round;
    }

    public static void main(String[] args) throws Exception {
        int round = args[0].equals("first") ? 1 : 2;
        new Workload(args[1], Path.of(args[2]), round).run();
        OUT.flush();
        // Not exit: a shutdown hook or a close would end the transaction that must stay open.
        Runtime.getRuntime().halt(0);
    }

    void run() throws Exception {
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap))) {
            if (round == 1) {
                createTopics(admin);
                changeMetadata(admin);
            }
            writePlain();
            writeCompressed();
            writeAtAppendTime();
            writeSized();
            writeTransactions();
            commitOffsets();
            if (round == 1) {
                shareRecords();
            }
            TopicPartition trimmed = new TopicPartition("trimmed", 0);
            admin.deleteRecords(Map.of(trimmed, RecordsToDelete.beforeOffset(25L * round))).all().get();
            writeCompacted();
        }
    }

    // ---- topics and the rest of the metadata

    void createTopics(Admin admin) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        topics.add(topic("plain", 2, Map.of()));
        topics.add(topic("trimmed", 1, Map.of()));
        topics.add(topic("append-time", 1, Map.of("message.timestamp.type", "LogAppendTime")));
        topics.add(topic("sized", 1, Map.of("segment.bytes", "1048576")));
        topics.add(topic("recompressed", 1, Map.of("compression.type", "zstd")));
        for (String codec : CODECS) {
            topics.add(topic(codec, 1, Map.of()));
        }
        topics.add(topic("ledger", 1, Map.of("segment.ms", "1000")));
        topics.add(topic("open", 1, Map.of()));
        topics.add(topic("doomed", 3, Map.of()));
        topics.add(topic("compacted", 1, Map.of(
            "cleanup.policy", "compact", "segment.ms", "1000", "min.cleanable.dirty.ratio", "0.01")));
        admin.createTopics(topics).all().get();
    }

    static NewTopic topic(String name, int partitions, Map<String, String> configs) {
        return new NewTopic(name, partitions, (short) 1).configs(configs);
    }

    /** Puts metadata records of many types into __cluster_metadata. */
    void changeMetadata(Admin admin) throws Exception {
        admin.createPartitions(Map.of("doomed", NewPartitions.increaseTo(4))).all().get();
        admin.deleteTopics(List.of("doomed")).all().get();
        ConfigResource plain = new ConfigResource(ConfigResource.Type.TOPIC, "plain");
        admin.incrementalAlterConfigs(Map.<ConfigResource, Collection<AlterConfigOp>>of(plain, List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", "-1"), AlterConfigOp.OpType.SET)))).all().get();
        admin.incrementalAlterConfigs(Map.<ConfigResource, Collection<AlterConfigOp>>of(plain, List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", ""), AlterConfigOp.OpType.DELETE)))).all().get();
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
            new ClientQuotaEntity(Map.of("user", "alice")),
            List.of(new ClientQuotaAlteration.Op("request_percentage", 12.5))))).all().get();
        admin.alterUserScramCredentials(List.of(
            new UserScramCredentialUpsertion("alice", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "secret"),
            new UserScramCredentialUpsertion("bob", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), "secret"))).all().get();
        admin.alterUserScramCredentials(List.of(
            new UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_512))).all().get();
        AclBinding acl = new AclBinding(
            new ResourcePattern(ResourceType.TOPIC, "elsewhere", PatternType.PREFIXED),
            new AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW));
        AclBinding passing = new AclBinding(
            new ResourcePattern(ResourceType.GROUP, "nobody", PatternType.LITERAL),
            new AccessControlEntry("User:bob", "*", AclOperation.ALL, AclPermissionType.DENY));
        admin.createAcls(List.of(acl, passing)).all().get();
        admin.deleteAcls(List.of(new AclBindingFilter(passing.pattern().toFilter(), AccessControlEntryFilter.ANY))).all().get();
    }

    // ---- records

    /** Null and empty keys and values, headers, times out of order, with and without a producer id. */
    void writePlain() throws Exception {
        for (boolean idempotent : new boolean[] {true, false}) {
            try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("enable.idempotence", idempotent, "acks", "all"))) {
                for (int partition = 0; partition < 2; partition++) {
                    String name = "round " + round + " idempotent " + idempotent + " ";
                    send(producer, "plain", partition, time(0), bytes("key"), bytes(name + "ordinary"), Map.of());
                    send(producer, "plain", partition, time(50), null, bytes(name + "null key, late"), Map.of());
                    send(producer, "plain", partition, time(10), bytes("tombstone"), null, Map.of());
                    send(producer, "plain", partition, time(20), new byte[0], new byte[0], Map.of());
                    send(producer, "plain", partition, time(30), new byte[] {0, (byte) 0xff, 1}, new byte[] {(byte) 0xfe, 0}, Map.of());
                    Map<String, byte[]> headers = new LinkedHashMap<>();
                    headers.put("trace", bytes("a-1"));
                    headers.put("empty", new byte[0]);
                    headers.put("null", null);
                    headers.put("größe", new byte[] {1, 2, 3});
                    send(producer, "plain", partition, time(40), bytes("headers"), bytes(name + "grüße"), headers);
                }
            }
        }
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            for (int i = 0; i < 30; i++) {
                send(producer, "trimmed", 0, time(i), bytes("k" + i), bytes("value " + round + "." + i), Map.of());
            }
        }
    }

    void writeCompressed() throws Exception {
        for (String codec : CODECS) {
            try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("compression.type", codec))) {
                for (int batch = 0; batch < 3; batch++) {
                    writeBatch(producer, codec, 40, "the same words again and again, batch " + batch + " of " + codec);
                }
            }
        }
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            writeBatch(producer, "recompressed", 40, "sent plain, kept as the topic asks");
        }
    }

    void writeAtAppendTime() throws Exception {
        for (String codec : new String[] {"none", "lz4"}) {
            try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("compression.type", codec))) {
                writeBatch(producer, "append-time", 5, "the broker's clock");
            }
        }
    }

    /** Several segments by size, with enough batches for sparse index entries in each. */
    void writeSized() throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            byte[] filler = new byte[1024];
            for (int batch = 0; batch < 120; batch++) {
                List<Future<RecordMetadata>> answers = new ArrayList<>();
                List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
                for (int i = 0; i < 10; i++) {
                    Arrays.fill(filler, (byte) ('a' + (batch + i) % 26));
                    records.add(new ProducerRecord<>("sized", 0, time(batch * 10 + i), null, filler.clone()));
                }
                for (ProducerRecord<byte[], byte[]> record : records) {
                    answers.add(producer.send(record));
                }
                producer.flush();
                report(records, answers, "plain");
            }
        }
    }

    /** Committed, aborted and interleaved transactions over several segments, and one that nobody ends. */
    void writeTransactions() throws Exception {
        KafkaProducer<byte[], byte[]> alice = transactional("alice");
        KafkaProducer<byte[], byte[]> bob = transactional("bob");
        transaction(alice, "committed", 0, 3);
        transaction(alice, "aborted", 1, 3);
        transaction(bob, "aborted", 2, 1);
        transaction(alice, "committed", 3, 2);

        alice.beginTransaction();
        bob.beginTransaction();
        List<ProducerRecord<byte[], byte[]>> kept = List.of(ledger(4, "interleaved, kept"), ledger(4, "interleaved, kept, last"));
        List<ProducerRecord<byte[], byte[]>> dropped = List.of(ledger(4, "interleaved, dropped"), ledger(4, "interleaved, dropped, last"));
        List<Future<RecordMetadata>> keptAnswers = new ArrayList<>();
        List<Future<RecordMetadata>> droppedAnswers = new ArrayList<>();
        for (int i = 0; i < 2; i++) {
            keptAnswers.add(alice.send(kept.get(i)));
            alice.flush();
            droppedAnswers.add(bob.send(dropped.get(i)));
            bob.flush();
        }
        bob.abortTransaction();
        alice.commitTransaction();
        report(kept, keptAnswers, "committed");
        report(dropped, droppedAnswers, "aborted");
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            send(producer, "ledger", 0, time(500_000), bytes("outside"), bytes("of any transaction"), Map.of());
        }

        transaction(alice, "committed", "open", 0, 2);
        alice.close();
        bob.close();
        // Left open on purpose, with a time-out beyond the test: the last stable offset stays here.
        KafkaProducer<byte[], byte[]> carol = transactional("carol-" + round);
        carol.beginTransaction();
        List<ProducerRecord<byte[], byte[]>> open = List.of(new ProducerRecord<>("open", 0, time(0), bytes("open"), bytes("round " + round)));
        List<Future<RecordMetadata>> answers = List.of(carol.send(open.get(0)));
        carol.flush();
        report(open, answers, "open");
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            send(producer, "open", 0, time(1), bytes("after"), bytes("behind the open transaction"), Map.of());
        }
    }

    void transaction(KafkaProducer<byte[], byte[]> producer, String outcome, int step, int count) throws Exception {
        transaction(producer, outcome, "ledger", step, count);
    }

    void transaction(KafkaProducer<byte[], byte[]> producer, String outcome, String topic, int step, int count) throws Exception {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        List<Future<RecordMetadata>> answers = new ArrayList<>();
        producer.beginTransaction();
        for (int i = 0; i < count; i++) {
            byte[] value = bytes(outcome + " in round " + round + " step " + step + " record " + i);
            records.add(new ProducerRecord<>(topic, 0, ledgerTime(step), bytes("t" + i), value));
            answers.add(producer.send(records.get(i)));
        }
        producer.flush();
        if (outcome.equals("committed")) {
            producer.commitTransaction();
        } else {
            producer.abortTransaction();
        }
        report(records, answers, outcome);
    }

    ProducerRecord<byte[], byte[]> ledger(int step, String value) {
        return new ProducerRecord<>("ledger", 0, ledgerTime(step), bytes("t"), bytes(value + " in round " + round));
    }

    /** Overwrites ten keys many times, deletes two, aborts a transaction, and waits until the cleaner has been there. */
    void writeCompacted() throws Exception {
        long roundTime = BASE_TIME + round * HOUR;
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of("compression.type", "lz4"))) {
            for (int pass = 0; pass < 5; pass++) {
                for (int key = 0; key < 10; key++) {
                    byte[] value = key >= 8 && pass == 3 ? null : bytes("round " + round + " pass " + pass + " of key " + key);
                    if (key < 8 || pass < 4) {
                        send(producer, "compacted", 0, roundTime + pass * 10_000L, bytes("key " + key), value, Map.of());
                    }
                }
                producer.flush();
            }
        }
        try (KafkaProducer<byte[], byte[]> writer = transactional("compactor")) {
            for (String outcome : new String[] {"aborted", "committed"}) {
                writer.beginTransaction();
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(
                    "compacted", 0, roundTime + 60_000L, bytes("key " + outcome), bytes(outcome + " in round " + round));
                Future<RecordMetadata> answer = writer.send(record);
                writer.flush();
                if (outcome.equals("aborted")) {
                    writer.abortTransaction();
                } else {
                    writer.commitTransaction();
                }
                report(List.of(record), List.of(answer), outcome);
            }
        }
        RecordMetadata last;
        try (KafkaProducer<byte[], byte[]> producer = producer(Map.of())) {
            // Its time is far beyond: the segment of everything before it is rolled, and only sealed segments are cleaned.
            last = send(producer, "compacted", 0, System.currentTimeMillis() + round * HOUR / 4, bytes("the roll"), bytes("round " + round), Map.of());
        }
        awaitCleaned("compacted 0 ", last.offset());
    }

    void awaitCleaned(String prefix, long offset) throws Exception {
        long deadline = System.currentTimeMillis() + 60_000;
        while (true) {
            try {
                for (String line : Files.readAllLines(data.resolve("cleaner-offset-checkpoint"))) {
                    if (line.startsWith(prefix) && Long.parseLong(line.substring(prefix.length())) >= offset) {
                        return;
                    }
                }
            } catch (NoSuchFileException notYet) {
                // The first cleaning writes it.
            }
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("the cleaner has not reached " + prefix + offset + " within a minute");
            }
            Thread.sleep(50);
        }
    }

    // ---- groups

    /** A classic group, a group of the new protocol, and offsets committed in a transaction. */
    void commitOffsets() throws Exception {
        for (String protocol : new String[] {"classic", "consumer"}) {
            Properties properties = properties(Map.of("group.id", protocol + "-group", "group.protocol", protocol,
                "auto.offset.reset", "earliest", "enable.auto.commit", "false", "client.id", "reader"));
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                consumer.subscribe(List.of("plain"));
                while (consumer.poll(Duration.ofMillis(200)).isEmpty()) {
                    // joining
                }
                consumer.commitSync(Map.of(new TopicPartition("plain", 0), new OffsetAndMetadata(3 + round, "by the " + protocol + " group")));
            }
        }
        Properties member = properties(Map.of("group.id", "transaction-group"));
        try (KafkaProducer<byte[], byte[]> producer = transactional("offsets");
             KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(member, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition("plain", 1), new OffsetAndMetadata(round, "in a transaction")), consumer.groupMetadata());
            producer.commitTransaction();
        }
    }

    /** A share group, so that __share_group_state has records. */
    void shareRecords() throws Exception {
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap))) {
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "share-group");
            admin.incrementalAlterConfigs(Map.<ConfigResource, Collection<AlterConfigOp>>of(group, List.of(
                new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET)))).all().get();
        }
        Properties properties = properties(Map.of("group.id", "share-group", "share.acknowledgement.mode", "explicit"));
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(Set.of("plain"));
            int count = 0;
            while (count == 0) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    consumer.acknowledge(record, count++ % 2 == 0 ? AcknowledgeType.ACCEPT : AcknowledgeType.RELEASE);
                }
            }
            consumer.commitSync();
        }
    }

    // ---- small things

    long time(long milliseconds) {
        return BASE_TIME + round * HOUR + milliseconds;
    }

    long ledgerTime(int step) {
        return time(step * 10_000L);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    Properties properties(Map<String, ?> more) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.putAll(more);
        return properties;
    }

    /** A producer that sends a batch only when it is flushed, so that the batches are the same on every run. */
    KafkaProducer<byte[], byte[]> producer(Map<String, ?> more) {
        Properties properties = properties(Map.of("linger.ms", "60000", "batch.size", "1000000"));
        properties.putAll(more);
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    KafkaProducer<byte[], byte[]> transactional(String name) {
        KafkaProducer<byte[], byte[]> producer = producer(Map.of("transactional.id", name, "transaction.timeout.ms", "600000"));
        producer.initTransactions();
        return producer;
    }

    void writeBatch(KafkaProducer<byte[], byte[]> producer, String topic, int count, String value) throws Exception {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        List<Future<RecordMetadata>> answers = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            records.add(new ProducerRecord<>(topic, 0, time(i), bytes("k" + i), bytes(value + ", record " + i)));
            answers.add(producer.send(records.get(i)));
        }
        producer.flush();
        report(records, answers, "plain");
    }

    RecordMetadata send(KafkaProducer<byte[], byte[]> producer, String topic, int partition, long time, byte[] key, byte[] value,
                        Map<String, byte[]> headers) throws Exception {
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, partition, time, key, value);
        headers.forEach((name, content) -> record.headers().add(name, content));
        Future<RecordMetadata> answer = producer.send(record);
        producer.flush();
        report(List.of(record), List.of(answer), "plain");
        return answer.get();
    }

    void report(List<ProducerRecord<byte[], byte[]>> records, List<Future<RecordMetadata>> answers, String outcome) throws Exception {
        for (int i = 0; i < records.size(); i++) {
            ProducerRecord<byte[], byte[]> record = records.get(i);
            RecordMetadata answer = answers.get(i).get();
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("round", round);
            line.put("outcome", outcome);
            line.put("topic", record.topic());
            line.put("partition", answer.partition());
            line.put("offset", answer.offset());
            line.put("timestamp", answer.timestamp());
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
            OUT.println(JSON.writeValueAsString(line));
        }
    }

    static String base64(byte[] content) {
        return content == null ? null : Base64.getEncoder().encodeToString(content);
    }
}
