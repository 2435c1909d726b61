package oncelog.kafkatests;

import net.bytebuddy.agent.ByteBuddyAgent;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.matcher.ElementMatchers;

import org.apache.kafka.common.message.CreateTopicsRequestData.CreatableReplicaAssignment;
import org.apache.kafka.common.message.CreateTopicsRequestData.CreatableTopic;

import java.util.List;

/** Makes one replica of several in each topic that an admin client creates on a cluster of several brokers. */
public final class OneReplica {
    public static volatile int brokers = 1;
    private static boolean installed;

    private OneReplica() { }

    /** `asked` is how many brokers the test's cluster would have; more replicas than that stay the error that they are. */
    public static synchronized void install(int asked) {
        brokers = asked;
        if (asked > 1 && !installed) {
            installed = true;
            new AgentBuilder.Default()
                .disableClassFormatChanges()
                .with(AgentBuilder.RedefinitionStrategy.RETRANSFORMATION)
                .type(ElementMatchers.named("org.apache.kafka.clients.admin.NewTopic"))
                .transform((builder, type, loader, module, domain) ->
                    builder.visit(Advice.to(Change.class).on(ElementMatchers.named("convertToCreatableTopic"))))
                .installOn(ByteBuddyAgent.install());
        }
    }

    public static int of(int replicas) {
        if (replicas < 2 || replicas > brokers) {
            return replicas;
        }
        Notes.count("replicas made 1: " + replicas);
        return 1;
    }

    public static void change(CreatableTopic topic) {
        topic.setReplicationFactor((short) of(topic.replicationFactor()));
        for (CreatableReplicaAssignment each : topic.assignments()) {
            if (each.brokerIds().stream().allMatch(id -> id >= 0 && id < brokers) && !each.brokerIds().equals(List.of(0))) {
                Notes.count("assignment made [0]: " + each.brokerIds());
                each.setBrokerIds(List.of(0));
            }
        }
    }

    public static final class Change {
        private Change() { }

        @Advice.OnMethodExit
        static void exit(@Advice.Return CreatableTopic topic) {
            OneReplica.change(topic);
        }
    }
}
