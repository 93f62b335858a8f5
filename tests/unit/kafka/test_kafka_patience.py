"""Asking again: only for answers that may change, only those keys, only so long."""

import time
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from mmtool.errors import MmtoolError
from mmtool.kafka.patience import ask, result


class Broker:
    """Answers each key with its script, then with the key itself."""

    def __init__(self, **scripts):
        self.scripts = scripts
        self.asked = []

    def send(self, keys):
        self.asked.append(list(keys))
        return {key: self.future(key) for key in keys}

    def future(self, key):
        future = Future()
        script = self.scripts.get(key, [])
        if script:
            future.set_exception(KafkaException(KafkaError(script.pop(0))))
        else:
            future.set_result(key)
        return future


def take(key, future):
    return result(future, 1, lambda error: MmtoolError(f"{key}: {error.name()}"))


def test_only_what_was_not_final_is_asked_again():
    broker = Broker(b=[KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS])
    assert ask(["a", "b"], broker.send, take, 5) == {"a": "a", "b": "b"}
    assert broker.asked == [["a", "b"], ["b"], ["b"]]


def test_a_final_answer_is_raised_at_once():
    broker = Broker(a=[KafkaError.GROUP_AUTHORIZATION_FAILED])
    with pytest.raises(MmtoolError, match="GROUP_AUTHORIZATION_FAILED"):
        ask(["a"], broker.send, take, 5)
    assert broker.asked == [["a"]]


def test_the_librarys_own_time_out_is_final():
    broker = Broker(a=[KafkaError._TIMED_OUT])
    with pytest.raises(MmtoolError, match="_TIMED_OUT"):
        ask(["a"], broker.send, take, 5)
    assert broker.asked == [["a"]]


def test_patience_ends():
    broker = Broker(a=[KafkaError.NOT_COORDINATOR] * 1_000)
    began = time.monotonic()
    with pytest.raises(MmtoolError, match="NOT_COORDINATOR"):
        ask(["a"], broker.send, take, 0.3)
    assert time.monotonic() - began < 2


def test_an_error_that_is_an_answer_counts_as_one():
    broker = Broker(a=[KafkaError.GROUP_ID_NOT_FOUND])
    assert ask(["a"], broker.send, lambda _, future: result(future, 1, lambda _: None), 5) == {"a": None}


def test_many_are_sent_in_handfuls():
    broker = Broker()
    keys = [str(number) for number in range(450)]
    assert ask(keys, broker.send, take, 5) == {key: key for key in keys}
    assert [len(some) for some in broker.asked] == [200, 200, 50]
