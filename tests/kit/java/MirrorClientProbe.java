import java.time.Duration;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.connect.mirror.MirrorClient;

/** What MirrorMaker 2's own client library finds on a cluster: one line per question, "question=answer". */
public class MirrorClientProbe {
    public static void main(String[] args) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", args[0]);
        try (MirrorClient client = new MirrorClient(config)) {
            for (int i = 1; i < args.length; i++) {
                System.out.println(args[i] + "=" + answer(client, args[i].split(":")));
            }
        }
    }

    private static Object answer(MirrorClient client, String[] question) throws Exception {
        switch (question[0]) {
            case "hops": return client.replicationHops(question[1]);
            case "heartbeats": return new TreeSet<>(client.heartbeatTopics());
            case "checkpoints": return new TreeSet<>(client.checkpointTopics());
            case "upstreams": return new TreeSet<>(client.upstreamClusters());
            case "remote": return new TreeSet<>(client.remoteTopics());
            case "offsets":
                Map<?, ?> found = client.remoteConsumerOffsets(question[2], question[1], Duration.ofSeconds(20));
                TreeSet<String> sorted = new TreeSet<>();
                found.forEach((place, offset) -> sorted.add(place + "@"
                    + ((org.apache.kafka.clients.consumer.OffsetAndMetadata) offset).offset()));
                return sorted;
            default: throw new IllegalArgumentException(question[0]);
        }
    }
}
