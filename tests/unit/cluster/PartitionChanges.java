import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * What Apache Kafka's controller makes of a partition. Each line of the file is one case, fields separated by spaces, lists
 * by commas, "-" for an empty list and "=" for "as it is". Printed is the record in hex, or "none".
 *
 * Usage: java -cp LIBS PartitionChanges.java FILE
 */
public final class PartitionChanges {
    public static void main(String[] args) throws Exception {
        StringBuilder out = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(args[0]))) {
            out.append(answer(line.split(" "))).append('\n');
        }
        System.out.print(out);
    }

    static String answer(String[] field) {
        int[] replicas = ids(field[4]);
        Uuid[] directories = new Uuid[replicas.length];
        Arrays.setAll(directories, i -> directory(replicas[i]));
        PartitionRegistration partition = new PartitionRegistration.Builder()
            .setReplicas(replicas).setDirectories(directories).setIsr(ids(field[5])).setLeader(Integer.valueOf(field[6]))
            .setRemovingReplicas(ids(field[7])).setAddingReplicas(ids(field[8])).setElr(ids(field[9]))
            .setLastKnownElr(ids(field[10])).setLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(field[11])))
            .setLeaderEpoch(5).setPartitionEpoch(9).build();
        Set<Integer> alive = new TreeSet<>(list(field[12]));
        PartitionChangeBuilder builder = new PartitionChangeBuilder(partition, new Uuid(7, 7), 3, alive::contains,
            MetadataVersion.fromFeatureLevel(Short.parseShort(field[0])), Integer.parseInt(field[2]), field[1].equals("1"));
        builder.setElection(PartitionChangeBuilder.Election.valueOf(field[3]));
        builder.setDefaultDirProvider(PartitionChanges::directory);
        if (!field[13].equals("=")) builder.setTargetIsr(list(field[13]));
        if (!field[14].equals("=")) builder.setTargetReplicas(list(field[14]));
        if (!field[15].equals("=")) builder.setTargetRemoving(list(field[15]));
        if (!field[16].equals("=")) builder.setTargetAdding(list(field[16]));
        if (!field[17].equals("=")) builder.setUncleanShutdownReplicas(list(field[17]));
        if (!field[18].equals("=")) {
            builder.setTargetLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(field[18])));
        }
        Optional<ApiMessageAndVersion> record = builder.build();
        return record.map(PartitionChanges::hex).orElse("none");
    }

    static String hex(ApiMessageAndVersion record) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        int size = MetadataRecordSerde.INSTANCE.recordSize(record, cache);
        ByteBufferAccessor bytes = new ByteBufferAccessor(java.nio.ByteBuffer.allocate(size));
        MetadataRecordSerde.INSTANCE.write(record, cache, bytes);
        return HexFormat.of().formatHex(bytes.buffer().array());
    }

    static Uuid directory(int broker) {
        return new Uuid(1000 + broker, 1);
    }

    static List<Integer> list(String text) {
        return Arrays.stream(ids(text)).boxed().toList();
    }

    static int[] ids(String text) {
        return text.equals("-") ? new int[0] : Arrays.stream(text.split(",")).mapToInt(Integer::parseInt).toArray();
    }
}
