"""The admin client against both brokers: ACLs, SCRAM users, quotas."""

from collections.abc import Iterator

import pytest

import headrace
from headrace.client.admin import Admin
from headrace.client.admin_access import Acl, AclFilter, ScramCredential
from headrace.client.errors import KafkaError
from headrace.protocol.error_codes import ErrorCode
from tests.support.both_brokers import eventually, unique


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Admin]:
    with headrace.Admin(bootstrap) as made:
        yield made


def test_acls_without_an_authorizer_are_an_error(headrace_bootstrap: str) -> None:
    acl = Acl("topic", "orders", "User:alice", "read")
    with headrace.Admin(headrace_bootstrap) as admin:
        with pytest.raises(KafkaError, match="SECURITY_DISABLED"):
            admin.describe_acls()
        with pytest.raises(KafkaError, match="SECURITY_DISABLED"):
            admin.create_acls([acl])
        with pytest.raises(KafkaError, match="SECURITY_DISABLED"):
            admin.delete_acls([AclFilter()])


@pytest.mark.kafka
def test_acls_are_created_found_and_deleted(kafka_bootstrap: str) -> None:
    name = unique("orders")
    read = Acl("topic", name, "User:alice", "read")
    deny = Acl("topic", name, "User:bob", "write", "deny", "10.0.0.1")
    prefix = Acl("group", name, "User:alice", "describe-configs", pattern="prefixed")
    with headrace.Admin(kafka_bootstrap) as admin:
        admin.create_acls([read, deny, prefix])
        eventually(lambda: set(admin.describe_acls()) >= {read, deny, prefix})
        assert set(admin.describe_acls(AclFilter(name=name, resource="topic"))) == {read, deny}
        assert admin.describe_acls(AclFilter(resource="group", name=f"{name}-x", pattern="match")) == [prefix]
        assert admin.describe_acls(AclFilter(principal="User:bob", permission="deny", name=name)) == [deny]
        assert set(admin.delete_acls([AclFilter(name=name)])) == {read, deny, prefix}
        eventually(lambda: admin.describe_acls(AclFilter(name=name)) == [])
        with pytest.raises(ValueError, match="'reed' is not one of any, all, read"):
            admin.create_acls([read._replace(operation="reed")])


def test_scram_users_are_set_described_and_deleted(admin: Admin) -> None:
    user = unique("alice")
    admin.set_scram_user(user, "secret", mechanism="SCRAM-SHA-256", iterations=5000)
    admin.set_scram_user(user, "secret")
    short, long = ScramCredential("SCRAM-SHA-256", 5000), ScramCredential("SCRAM-SHA-512", 4096)
    eventually(lambda: set(admin.describe_scram_users([user])[user]) == {short, long})
    assert user in admin.describe_scram_users()
    admin.delete_scram_user(user)
    eventually(lambda: admin.describe_scram_users([user]) == {user: [short]})
    admin.delete_scram_user(user, mechanism="SCRAM-SHA-256")
    with pytest.raises(KafkaError) as caught:
        eventually_gone(admin, user)
    assert caught.value.code is ErrorCode.RESOURCE_NOT_FOUND
    with pytest.raises(KafkaError, match="UNACCEPTABLE_CREDENTIAL"):
        admin.set_scram_user(user, "secret", iterations=10)
    with pytest.raises(ValueError, match="'MD5' is not one of"):
        admin.set_scram_user(user, "secret", mechanism="MD5")


def eventually_gone(admin: Admin, user: str) -> None:
    """Raises what the broker says once it knows that the user is gone."""
    while True:
        admin.describe_scram_users([user])


def test_quotas_are_set_described_and_removed(admin: Admin) -> None:
    client = unique("importer")
    entity = {"client-id": client}
    pair = {"client-id": client, "user": "bob"}
    admin.alter_quotas(entity, {"producer_byte_rate": 1024, "request_percentage": 12.5})
    admin.alter_quotas(pair, {"consumer_byte_rate": 2048.0})
    eventually(lambda: len(admin.describe_quotas(entity)) == 2)
    (alone,) = admin.describe_quotas(entity, strict=True)
    assert (alone.entity, alone.values) == (entity, {"producer_byte_rate": 1024.0, "request_percentage": 12.5})
    (paired,) = admin.describe_quotas(entity, types=["user"])
    assert (paired.entity, paired.values) == (pair, {"consumer_byte_rate": 2048.0})
    admin.alter_quotas(entity, {"producer_byte_rate": None}, validate_only=True)
    admin.alter_quotas(entity, {"request_percentage": None})
    eventually(lambda: admin.describe_quotas(entity, strict=True)[0].values == {"producer_byte_rate": 1024.0})
    with pytest.raises(KafkaError):
        admin.alter_quotas(entity, {"bytes": 1})


def test_the_default_of_all_clients_has_quotas_too(admin: Admin) -> None:
    admin.alter_quotas({"client-id": None}, {"consumer_byte_rate": 1e9})
    eventually(lambda: [entry.entity for entry in admin.describe_quotas({"client-id": None})] == [{"client-id": None}])
    admin.alter_quotas({"client-id": None}, {"consumer_byte_rate": None})
