import java.io.FileInputStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.connect.mirror.ConfigPropertyFilter;
import org.apache.kafka.connect.mirror.MirrorCheckpointConfig;
import org.apache.kafka.connect.mirror.MirrorCheckpointConnector;
import org.apache.kafka.connect.mirror.MirrorMakerConfig;
import org.apache.kafka.connect.mirror.MirrorSourceConfig;
import org.apache.kafka.connect.mirror.MirrorSourceConnector;
import org.apache.kafka.connect.mirror.ReplicationPolicy;
import org.apache.kafka.connect.mirror.SourceAndTarget;
import org.apache.kafka.connect.mirror.TopicFilter;

/**
 * How MirrorMaker 2's own classes name what a properties file makes of a flow.
 *
 * Arguments: the flow's source and target, a comma list of topics, then files. Per file one line for what belongs to
 * the flow (source alias, target alias, offset-syncs topic, checkpoints topic), then one per topic: its name on the
 * target, and whether MirrorMaker 2 mirrors it. The parts of a line are separated by tabs.
 */
public class MirrorNames {
    private static MirrorMakerConfig reader;

    public static void main(String[] args) throws Exception {
        SourceAndTarget flow = new SourceAndTarget(args[0], args[1]);
        for (String file : Arrays.asList(args).subList(3, args.length)) {
            name(flow, List.of(args[2].split(",")), file);
        }
    }

    private static void name(SourceAndTarget flow, List<String> topics, String file) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream in = new FileInputStream(file)) {
            properties.load(in);
        }
        Map<String, String> texts = new HashMap<>();
        properties.forEach((key, value) -> texts.put((String) key, (String) value));
        MirrorMakerConfig config = read(texts);
        MirrorSourceConfig source =
            new MirrorSourceConfig(config.connectorBaseConfig(flow, MirrorSourceConnector.class));
        MirrorCheckpointConfig checkpoints =
            new MirrorCheckpointConfig(config.connectorBaseConfig(flow, MirrorCheckpointConnector.class));
        String from = (String) ask(source, "sourceClusterAlias");
        String to = (String) ask(source, "targetClusterAlias");
        print(from, to, ask(source, "offsetSyncsTopic"), ask(checkpoints, "checkpointsTopic"));
        ReplicationPolicy policy = (ReplicationPolicy) ask(source, "replicationPolicy");
        Constructor<MirrorSourceConnector> constructor = MirrorSourceConnector.class.getDeclaredConstructor(
            SourceAndTarget.class, ReplicationPolicy.class, TopicFilter.class, ConfigPropertyFilter.class);
        constructor.setAccessible(true);
        MirrorSourceConnector connector = constructor.newInstance(
            new SourceAndTarget(from, to), policy, ask(source, "topicFilter"), null);
        Method mirrors = MirrorSourceConnector.class.getDeclaredMethod("shouldReplicateTopic", String.class);
        mirrors.setAccessible(true);
        for (String topic : topics) {
            print(policy.formatRemoteTopic(from, topic), mirrors.invoke(connector, topic));
        }
    }

    /** One scan for plugins serves all files: it takes a second, and names nothing. */
    private static MirrorMakerConfig read(Map<String, String> texts) throws Exception {
        if (reader == null) {
            texts.put("plugin.discovery", "service_load");
            reader = new MirrorMakerConfig(texts);
        }
        for (Class<?> of : List.of(MirrorMakerConfig.class, AbstractConfig.class)) {
            Field field = of.getDeclaredField(of == AbstractConfig.class ? "originals" : "rawProperties");
            field.setAccessible(true);
            field.set(reader, texts);
        }
        return reader;
    }

    private static Object ask(Object config, String question) throws Exception {
        for (Class<?> of = config.getClass(); of != null; of = of.getSuperclass()) {
            try {
                Method method = of.getDeclaredMethod(question);
                method.setAccessible(true);
                return method.invoke(config);
            } catch (NoSuchMethodException inherited) {
                // asked of the superclass
            }
        }
        throw new NoSuchMethodException(question);
    }

    private static void print(Object... parts) {
        System.out.println("=" + String.join("\t", Arrays.stream(parts).map(String::valueOf).toList()));
    }
}
