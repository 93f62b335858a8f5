import java.util.*;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.sink.*;

/** A sink connector that prints each record: topic, partition, offset, value. */
public class PrintedSink extends SinkConnector {
    public static class Printer extends SinkTask {
        public void start(Map<String, String> settings) {}
        public void stop() {}
        public String version() { return "1"; }
        public void put(Collection<SinkRecord> records) {
            for (SinkRecord one : records)
                System.err.println("SUNK " + one.topic() + " " + one.kafkaPartition() + " " + one.kafkaOffset() + " " + one.value());
        }
    }
    public void start(Map<String, String> settings) {}
    public void stop() {}
    public String version() { return "1"; }
    public Class<? extends Task> taskClass() { return Printer.class; }
    public List<Map<String, String>> taskConfigs(int most) { return List.of(Map.of()); }
    public ConfigDef config() { return new ConfigDef(); }
}
