// Prints how Kafka's clients declare their configs, as lines: client, name, type, default, importance; tabs between.

import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;

public class ClientConfigs {
    public static void main(String[] arguments) throws ReflectiveOperationException {
        print("producer", ProducerConfig.class);
        print("consumer", ConsumerConfig.class);
        print("admin", AdminClientConfig.class);
    }

    private static void print(String client, Class<?> holder) throws ReflectiveOperationException {
        var field = holder.getDeclaredField("CONFIG");
        field.setAccessible(true);
        for (Map.Entry<String, ConfigDef.ConfigKey> entry : new TreeMap<>(((ConfigDef) field.get(null)).configKeys()).entrySet()) {
            ConfigDef.ConfigKey key = entry.getValue();
            if (key.internalConfig) {
                continue;
            }
            String value = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : "(required)";
            System.out.println(String.join("\t", client, key.name, key.type.toString(), String.valueOf(value), key.importance.toString()));
        }
    }
}
