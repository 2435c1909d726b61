package oncelog.kafkatests;

import kafka.network.SocketServer;
import kafka.server.BrokerServer;
import kafka.server.KafkaConfig;

import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.metadata.BrokerState;

import org.mockito.Mockito;
import org.mockito.stubbing.Answer;

import java.util.Map;

/** Makes Kafka's broker object of a node: what a process shows from outside answers, all else is out of reach. */
public final class Brokers {
    private Brokers() { }

    public static BrokerServer of(Node node, Map<String, Object> configs, String clusterId) {
        SocketServer sockets = Mockito.mock(SocketServer.class, answering(node, call ->
            call.equals("boundPort") ? Found.PORT : Found.NOTHING, null, null));
        return Mockito.mock(BrokerServer.class, answering(node, call -> switch (call) {
            case "boundPort" -> Found.PORT;
            case "config" -> Found.CONFIG;
            case "socketServer" -> Found.SOCKETS;
            case "clusterId" -> Found.CLUSTER;
            case "startup" -> Found.START;
            case "shutdown" -> Found.STOP;
            case "isShutdown" -> Found.IS_STOPPED;
            case "brokerState" -> Found.STATE;
            case "awaitShutdown" -> Found.WAIT;
            default -> Found.NOTHING;
        }, new Shown(configs, clusterId), sockets));
    }

    private enum Found { PORT, CONFIG, SOCKETS, CLUSTER, START, STOP, IS_STOPPED, STATE, WAIT, NOTHING }

    private record Shown(Map<String, Object> configs, String clusterId) { }

    private interface Names {
        Found find(String call);
    }

    private static Answer<Object> answering(Node node, Names names, Shown shown, SocketServer sockets) {
        return call -> {
            String name = call.getMethod().getName();
            switch (names.find(name)) {
                case PORT: return node.port(((ListenerName) call.getArgument(0)).value());
                case CONFIG: return new KafkaConfig(shown.configs(), false);
                case SOCKETS: return sockets;
                case CLUSTER: return shown.clusterId();
                case START: node.start(); return null;
                case STOP: node.stop(); return null;
                case IS_STOPPED: return !node.isRunning();
                case STATE: return node.isRunning() ? BrokerState.RUNNING : BrokerState.NOT_RUNNING;
                case WAIT: return null;
                default:
                    if (name.equals("toString")) {
                        return "oncelog " + node.id();
                    }
                    throw new OutOfReach(call.getMethod().getDeclaringClass().getSimpleName() + "." + name);
            }
        };
    }
}
