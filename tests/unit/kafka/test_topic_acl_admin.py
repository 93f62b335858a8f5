"""A rule that cannot be added costs itself, and no other rule of the same request."""

from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from mmtool.config import ClusterSettings
from mmtool.kafka.admin.topics import AclAdmin
from mmtool.plan.topics.configs import TopicAcl


def rule(user, operation="READ"):
    return TopicAcl("orders", f"User:{user}", "*", operation, "ALLOW")


def acls(**errors):
    """An admin whose broker answers each rule with that error, or takes it; and the users whose rules were sent."""
    sent = []

    def create(self, bindings, **options):
        AdminClient.create_acls(self, bindings, request_timeout=0.1)  # the library's own checks
        sent.extend(binding.principal for binding in bindings)
        return {binding: answer(errors.get(binding.principal.removeprefix("User:"))) for binding in bindings}

    def answer(code):
        future = Future()
        if code is None:
            future.set_result(None)
        else:
            future.set_exception(KafkaException(KafkaError(code)))
        return future

    client = type("Client", (AdminClient,), {"create_acls": create})(
        {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
    )
    cluster = ClusterSettings(alias="west", bootstrap_servers="127.0.0.1:1")
    return type("Answered", (AclAdmin,), {"_client": client})(cluster), sent


def test_one_that_the_broker_refuses_is_named():
    admin, sent = acls(odd=KafkaError.INVALID_REQUEST)
    failed = admin.add([rule("ann"), rule("odd")])
    assert (sent, list(failed)) == (["User:ann", "User:odd"], [rule("odd")])
    assert "INVALID_REQUEST" in failed[rule("odd")]


def test_one_of_an_operation_that_the_library_does_not_know_is_left_out_of_the_request():
    admin, sent = acls()
    failed = admin.add([rule("ann"), rule("new", "UNKNOWN")])
    assert (sent, list(failed)) == (["User:ann"], [rule("new", "UNKNOWN")])
    assert "does not know the operation" in failed[rule("new", "UNKNOWN")]
