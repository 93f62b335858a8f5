import java.lang.reflect.Field;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.ConfigDef;

/** The defaults of MirrorMaker 2's three connectors, a line each: name=value, lists with ", " between. */
public class MirrorDefaults {
    public static void main(String[] args) throws ReflectiveOperationException {
        for (String connector : List.of("Source", "Checkpoint", "Heartbeat")) {
            Class<?> config = Class.forName("org.apache.kafka.connect.mirror.Mirror" + connector + "Config");
            Field definition = config.getDeclaredField("CONNECTOR_CONFIG_DEF");
            definition.setAccessible(true);
            Map<String, Object> defaults = ((ConfigDef) definition.get(null)).defaultValues();
            defaults.forEach((name, value) -> System.out.println(name + "=" + text(value)));
        }
    }

    private static String text(Object value) {
        if (value instanceof List) {
            return ((List<?>) value).stream().map(String::valueOf).collect(Collectors.joining(", "));
        }
        return value instanceof Class ? ((Class<?>) value).getName() : String.valueOf(value);
    }
}
