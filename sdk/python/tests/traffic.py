"""Traffic of all kinds, and what a former owner of a partition appends again."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from stack import Stack

from tidemark import Client


def traffic(client: Client, ann: int, ben: int, cem: int, lunch: int) -> None:
    lines: list[Any] = [{"message": {"srcid": str(ann), "destid": str(ben), "msg": f"text {i}"}} for i in range(300)]
    assert all(result["status"] == 202 for result in client.stream(lines))
    client.ack(ben, ann, device="pc", mid=200)
    client.change(ann, ben, mid=7, kind="edit", msg="edited")
    client.react(ben, ann, mid=7, emoji="👍")
    client.change(ann, ben, mid=8, kind="recall")
    client.change_contact(ben, ann, muted=True)
    client.set_profile(ann, nick="Ann")
    client.create_group(ann, name="Lunch", gid=lunch, members=[str(ben), str(cem)])
    client.send(ann, gid=lunch, msg="At noon?")
    # A repeat and a refusal, which lead to no event.
    client.send(ann, ben, msg="once", client_msg_id="once")
    client.send(ann, ben, msg="once", client_msg_id="once")
    client.change(ben, ann, mid=7, kind="recall")
    assert client.unread(ben, "pc")["total"] == 101


def append_again(stack: Stack, partition: int, offsets: list[int]) -> None:
    """Appends the same bytes again, as a sequencer does that was paused while another took its partition."""
    config = {"bootstrap.servers": stack.brokers, "group.id": "test", "enable.auto.commit": False}
    consumer, producer = Consumer(config), Producer({"bootstrap.servers": stack.brokers, "acks": "all"})
    consumer.assign([TopicPartition("chat.events", partition, offsets[0])])
    records = []
    while len(records) < len(offsets):
        records += [record for record in consumer.consume(len(offsets), 1.0) if record.offset() in offsets]
    consumer.close()
    for record in records:
        producer.produce("chat.events", record.value(), record.key(), partition, timestamp=record.timestamp()[1])
    assert producer.flush(30) == 0
