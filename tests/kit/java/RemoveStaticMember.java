import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;

/** Removes a static member from its group: RemoveStaticMember BOOTSTRAP GROUP INSTANCE_ID. */
public class RemoveStaticMember {
    public static void main(String[] arguments) throws Exception {
        MemberToRemove member = new MemberToRemove(arguments[2]);
        try (Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", arguments[0]))) {
            admin.removeMembersFromConsumerGroup(
                    arguments[1], new RemoveMembersFromConsumerGroupOptions(Set.of(member))).all().get();
        }
    }
}
