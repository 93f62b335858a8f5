import com.sun.tools.attach.VirtualMachine;
import java.util.TreeMap;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Prints "name value" of the numeric attributes of a running broker's MBeans, each summed over the MBeans of a pattern. */
public class ReadMetrics {
    public static void main(String[] arguments) throws Exception {
        VirtualMachine broker = VirtualMachine.attach(arguments[0]);
        String address = broker.startLocalManagementAgent();
        broker.detach();
        TreeMap<String, Double> sums = new TreeMap<>();
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(address))) {
            MBeanServerConnection beans = connector.getMBeanServerConnection();
            for (ObjectName name : beans.queryNames(new ObjectName(arguments[1]), null)) {
                for (MBeanAttributeInfo attribute : beans.getMBeanInfo(name).getAttributes()) {
                    if (beans.getAttribute(name, attribute.getName()) instanceof Number number) {
                        sums.merge(attribute.getName(), number.doubleValue(), Double::sum);
                    }
                }
            }
        }
        sums.forEach((name, value) -> System.out.println(name + " " + value));
    }
}
