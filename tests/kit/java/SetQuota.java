import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;

/** Sets a quota for every client id, or takes it away: SetQuota BOOTSTRAP KEY [VALUE]. */
public class SetQuota {
    public static void main(String[] arguments) throws Exception {
        Double value = arguments.length > 2 ? Double.valueOf(arguments[2]) : null;
        ClientQuotaEntity everybody =
                new ClientQuotaEntity(Collections.singletonMap(ClientQuotaEntity.CLIENT_ID, null));
        ClientQuotaAlteration.Op change = new ClientQuotaAlteration.Op(arguments[1], value);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", (Object) arguments[0]))) {
            admin.alterClientQuotas(List.of(new ClientQuotaAlteration(everybody, List.of(change)))).all().get();
        }
    }
}
