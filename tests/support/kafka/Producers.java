import java.io.File;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * What Kafka's broker knows of the producers of a log when it has loaded their snapshot: a line for each.
 *
 * Usage: java -cp LIBS Producers.java DIRECTORY END_OFFSET NOW_MS
 */
public class Producers {
    private static final int DAY_MS = 24 * 60 * 60 * 1000;

    public static void main(String[] arguments) throws Exception {
        ProducerStateManager producers = new ProducerStateManager(
            new TopicPartition("t", 0),
            new File(arguments[0]),
            DAY_MS,
            new ProducerStateManagerConfig(DAY_MS, false),
            Time.SYSTEM
        );
        producers.truncateAndReload(0, Long.parseLong(arguments[1]), Long.parseLong(arguments[2]));
        producers.activeProducers().values().forEach(System.out::println);
    }
}
