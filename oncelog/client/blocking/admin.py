"""The blocking Admin.

Owns: one method for each of the asyncio one, which is made of it. Does not own: any Kafka logic.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from oncelog.client.admin.client import Admin as AsyncAdmin
from oncelog.client.admin.settings import AdminSettings
from oncelog.client.blocking.loop_thread import Facade, blocking, closing
from oncelog.client.values.option_values import lists_options

if TYPE_CHECKING:
    from oncelog.client.options.option_types import AdminOptions


@lists_options(AdminSettings)
class Admin(Facade[AsyncAdmin]):
    """A blocking `oncelog.Admin`.

        with Admin("host:9092") as admin:
            admin.create_topics("topic")

    The arguments and errors are the same.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = "localhost:9092", **options: "Unpack[AdminOptions]"
    ) -> None:
        super().__init__(AsyncAdmin(bootstrap_servers, **options))

    create_topics = blocking(AsyncAdmin.create_topics)
    delete_topics = blocking(AsyncAdmin.delete_topics)
    list_topics = blocking(AsyncAdmin.list_topics)
    describe_topics = blocking(AsyncAdmin.describe_topics)
    create_partitions = blocking(AsyncAdmin.create_partitions)
    delete_records = blocking(AsyncAdmin.delete_records)
    describe_configs = blocking(AsyncAdmin.describe_configs)
    describe_config_entries = blocking(AsyncAdmin.describe_config_entries)
    alter_configs = blocking(AsyncAdmin.alter_configs)
    describe_cluster = blocking(AsyncAdmin.describe_cluster)
    create_acls = blocking(AsyncAdmin.create_acls)
    describe_acls = blocking(AsyncAdmin.describe_acls)
    delete_acls = blocking(AsyncAdmin.delete_acls)
    list_offsets = blocking(AsyncAdmin.list_offsets)
    describe_quorum = blocking(AsyncAdmin.describe_quorum)
    describe_log_dirs = blocking(AsyncAdmin.describe_log_dirs)
    update_features = blocking(AsyncAdmin.update_features)
    describe_user_scram_credentials = blocking(AsyncAdmin.describe_user_scram_credentials)
    alter_user_scram_credentials = blocking(AsyncAdmin.alter_user_scram_credentials)
    describe_client_quotas = blocking(AsyncAdmin.describe_client_quotas)
    alter_client_quotas = blocking(AsyncAdmin.alter_client_quotas)
    create_delegation_token = blocking(AsyncAdmin.create_delegation_token)
    renew_delegation_token = blocking(AsyncAdmin.renew_delegation_token)
    expire_delegation_token = blocking(AsyncAdmin.expire_delegation_token)
    describe_delegation_tokens = blocking(AsyncAdmin.describe_delegation_tokens)
    list_groups = blocking(AsyncAdmin.list_groups)
    describe_groups = blocking(AsyncAdmin.describe_groups)
    delete_groups = blocking(AsyncAdmin.delete_groups)
    list_group_offsets = blocking(AsyncAdmin.list_group_offsets)
    alter_group_offsets = blocking(AsyncAdmin.alter_group_offsets)
    delete_group_offsets = blocking(AsyncAdmin.delete_group_offsets)
    list_group_lag = blocking(AsyncAdmin.list_group_lag)
    describe_share_groups = blocking(AsyncAdmin.describe_share_groups)
    list_share_group_offsets = blocking(AsyncAdmin.list_share_group_offsets)
    alter_share_group_offsets = blocking(AsyncAdmin.alter_share_group_offsets)
    delete_share_group_offsets = blocking(AsyncAdmin.delete_share_group_offsets)
    describe_streams_groups = blocking(AsyncAdmin.describe_streams_groups)
    describe_producers = blocking(AsyncAdmin.describe_producers)
    list_transactions = blocking(AsyncAdmin.list_transactions)
    find_transactions = blocking(AsyncAdmin.find_transactions)
    describe_transaction = blocking(AsyncAdmin.describe_transaction)
    abort_on_partition = blocking(AsyncAdmin.abort_on_partition)
    fence_producer = blocking(AsyncAdmin.fence_producer)
    close = closing(AsyncAdmin.close)
