"""Records of `chat.events` made by hand, and those in the dead letters."""

from __future__ import annotations

import uuid
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tidemark.decode import SequencedEvent

#: 2026-11-21T08:00:00Z, in milliseconds since 1970.
MORNING_MS = 1_795_248_000_000


class EventsTopic:
    """A topic `<prefix>chat.events` with 64 partitions, until `delete`: no service reads it."""

    def __init__(self, brokers: str) -> None:
        self.prefix = f"{uuid.uuid4().hex[:8]}."
        self._topic = f"{self.prefix}chat.events"
        self._admin = AdminClient({"bootstrap.servers": brokers})
        # Idempotent: what is repeated while the topic gets its leaders keeps its order.
        self._producer = Producer({"bootstrap.servers": brokers, "enable.idempotence": True, "linger.ms": 0})
        # As `tidemark topics apply` declares it, so that a record may have any time.
        config = {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": str(2**63 - 1)}
        self._wait(self._admin.create_topics([NewTopic(self._topic, 64, 1, config=config)]))

    def append(self, partition: int, *values: bytes, ms: int = MORNING_MS) -> None:
        for value in values:
            self._producer.produce(self._topic, value=value, partition=partition, timestamp=ms)
        assert self._producer.flush(30) == 0

    def delete(self) -> None:
        self._wait(self._admin.delete_topics([self._topic]))

    @staticmethod
    def _wait(futures: dict[Any, Any]) -> None:
        for future in futures.values():
            future.result(30)


def event(kind: str, source: int, /, epoch: int = 0, **fields: Any) -> bytes:
    """The value of a record: `kind` is a field of `chat.v1.SequencedEvent`, `source` the offset of its inbound record."""
    src = {"epoch": epoch, "offset": source, "leader_epoch": 0}
    return SequencedEvent(src=src, **{kind: fields}).SerializeToString()


def message(source: int, /, epoch: int = 0, srcid: int = 1, destid: int = 2, **fields: Any) -> bytes:
    """A message from user 1 to user 2, so in partition 3, whose mid and text are its source offset."""
    given = {"client_msg_id": f"c{source}", "msg": f"text {source}", "mid": source + 1, "n": source + 1, **fields}
    return event("message", source, epoch, srcid=srcid, destid=destid, **given)


def dead_letters(brokers: str) -> set[tuple[int, int]]:
    """The records of `chat.events` that projections have put into the dead letters, by partition and offset."""
    config = {
        "bootstrap.servers": brokers,
        "group.id": "test",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
    }
    consumer = Consumer(config)
    consumer.assign([TopicPartition("chat.dead-letters", partition, 0) for partition in range(64)])
    found, ended = set(), set()
    while len(ended) < 64:
        for record in consumer.consume(1_000, 0.1):
            if record.error() is not None:
                ended.add(record.partition())
                continue
            headers = {name: value.decode() for name, value in record.headers() or []}
            if headers["__connect.errors.topic"] == "chat.events":
                found.add((int(headers["__connect.errors.partition"]), int(headers["__connect.errors.offset"])))
    consumer.close()
    return found
