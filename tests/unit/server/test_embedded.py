"""A broker inside the process, as users write it."""

import os
import threading
from pathlib import Path

import pytest

import headrace
from headrace.log.errors import LockedError
from headrace.server.settings import SettingsError


def test_a_broker_starts_has_an_address_and_leaves_nothing_behind() -> None:
    threads = threading.active_count()
    with headrace.Broker() as broker:
        host, _, port = broker.address.rpartition(":")
        assert host == "127.0.0.1"
        assert int(port) > 0
        path = broker._path
        assert os.path.isdir(path)
    assert not os.path.exists(path)
    assert threading.active_count() == threads
    broker.close()
    assert repr(broker) == "Broker(stopped)"


def test_data_with_a_path_stays_and_belongs_to_one_broker_at_a_time(tmp_path: Path) -> None:
    with headrace.Broker(str(tmp_path)) as first:
        cluster_id = first.cluster_id
        with pytest.raises(LockedError):
            headrace.Broker(str(tmp_path))
    with headrace.Broker(str(tmp_path)) as second:
        assert second.cluster_id == cluster_id


def test_configs_are_given_by_keyword_and_checked() -> None:
    with headrace.Broker(num_partitions=3, auto_create_topics_enable=False) as broker:
        values = broker._broker.settings.values
        assert values["num.partitions"] == 3
        assert values["auto.create.topics.enable"] is False
    with pytest.raises(SettingsError, match=r"num.partitons is not a broker config; did you mean num.partitions\?"):
        headrace.Broker(num_partitons=3)


def test_several_brokers_live_side_by_side() -> None:
    with headrace.Broker() as one, headrace.Broker() as other:
        assert one.address != other.address
        assert one.cluster_id != other.cluster_id
