package oncelog.kafkatests;

import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.server.authorizer.AclCreateResult;
import org.apache.kafka.server.authorizer.AclDeleteResult;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.authorizer.AuthorizerServerInfo;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;

/** Rights of a node, read and changed by requests: tests ask Kafka's own authorizer for them. */
final class OutsideAuthorizer implements Authorizer {
    private final Outside outside;

    OutsideAuthorizer(Outside outside) {
        this.outside = outside;
    }

    @Override
    public List<? extends CompletionStage<AclCreateResult>> createAcls(AuthorizableRequestContext context, List<AclBinding> bindings) {
        List<CompletableFuture<AclCreateResult>> results = new ArrayList<>();
        for (AclBinding each : bindings) {
            results.add(CompletableFuture.completedFuture(outside.refusal(admin -> admin.createAcls(List.of(each)).all().get())
                .map(AclCreateResult::new).orElse(AclCreateResult.SUCCESS)));
        }
        return results;
    }

    @Override
    public List<? extends CompletionStage<AclDeleteResult>> deleteAcls(AuthorizableRequestContext context, List<AclBindingFilter> filters) {
        List<CompletableFuture<AclDeleteResult>> results = new ArrayList<>();
        for (AclBindingFilter each : filters) {
            results.add(CompletableFuture.completedFuture(outside.refusal(admin -> admin.deleteAcls(List.of(each)).all().get())
                .map(AclDeleteResult::new).orElse(new AclDeleteResult(List.of()))));
        }
        return results;
    }

    @Override
    public Iterable<AclBinding> acls(AclBindingFilter filter) {
        return outside.ask(admin -> admin.describeAcls(filter).values().get());
    }

    @Override
    public List<AuthorizationResult> authorize(AuthorizableRequestContext context, List<Action> actions) {
        throw new OutOfReach("Authorizer.authorize");
    }

    @Override
    public Map<Endpoint, ? extends CompletionStage<Void>> start(AuthorizerServerInfo info) {
        return Map.of();
    }

    @Override
    public void configure(Map<String, ?> configs) { }

    @Override
    public void close() { }
}
