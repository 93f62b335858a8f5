import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;

/** Moves the leader of every partition of some topics, again and again, until it is killed: replicas stay where they are. */
public class MoveLeaders {
    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], part = arguments[1];
        long pauseMs = Long.parseLong(arguments[2]);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", (Object) bootstrap))) {
            for (int round = 1; ; round++) {
                Map<TopicPartition, Optional<NewPartitionReassignment>> turned = turned(admin, part);
                admin.alterPartitionReassignments(turned).all().get();
                Set<TopicPartition> places = new HashSet<>(turned.keySet());
                long failed = admin.electLeaders(ElectionType.PREFERRED, places).partitions().get().values().stream()
                        .filter(Optional::isPresent).count();
                System.out.println("moved " + (places.size() - failed));
                System.out.flush();
                Thread.sleep(pauseMs);
            }
        }
    }

    private static Map<TopicPartition, Optional<NewPartitionReassignment>> turned(Admin admin, String part) throws Exception {
        Set<String> topics = admin.listTopics().names().get().stream()
                .filter(name -> name.contains(part)).collect(Collectors.toSet());
        Map<TopicPartition, Optional<NewPartitionReassignment>> found = new HashMap<>();
        for (TopicDescription topic : admin.describeTopics(topics).allTopicNames().get().values()) {
            for (TopicPartitionInfo partition : topic.partitions()) {
                List<Integer> replicas = new ArrayList<>(partition.replicas().stream().map(Node::id).toList());
                Collections.rotate(replicas, -1);
                found.put(
                        new TopicPartition(topic.name(), partition.partition()),
                        Optional.of(new NewPartitionReassignment(replicas)));
            }
        }
        return found;
    }
}
