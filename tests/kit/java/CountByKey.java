import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts records by key, exactly once, until stdin ends: CountByKey BOOTSTRAP APPLICATION INPUT OUTPUT STATE_DIR PROTOCOL [join].
 * With join, the counts are joined by foreign key twice: with a name of its own, and with one that Kafka Streams gives.
 * The output topic has the count of a key after each of its records, as text. The state is in memory and in the changelog.
 */
public class CountByKey {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4]);
        settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, arguments[5]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        if (arguments[5].equals("classic")) {
            settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 6000);
            settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), 1500);
        }
        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, Long> counts = builder.stream(arguments[2], Consumed.with(Serdes.String(), Serdes.String()))
                .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
                .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts")));
        if (arguments.length > 6) {
            counts.leftJoin(counts, String::valueOf, (left, right) -> left, TableJoined.as("by-count"));
            counts.leftJoin(counts, String::valueOf, (left, right) -> left);
        }
        counts.toStream()
                .mapValues(String::valueOf)
                .to(arguments[3], Produced.with(Serdes.String(), Serdes.String()));
        CountDownLatch running = new CountDownLatch(1);
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            streams.setStateListener((now, before) -> {
                if (now == KafkaStreams.State.RUNNING) running.countDown();
            });
            streams.start();
            running.await();
            System.out.println("running");
            System.out.flush();
            while (System.in.read() >= 0) { }
            streams.close(Duration.ofSeconds(30));
        }
        System.out.println("closed");
    }
}
