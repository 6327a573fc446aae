import assert from "node:assert/strict";
import { test } from "node:test";
import { Outbox, type QueueItem } from "../src/outbox.js";

const PEER = "user:1001";
const GROUP = "group:5000";

test("what is not answered is written again on the next connection", () => {
  const outbox = new Outbox();
  outbox.send(PEER, "a", "one");
  outbox.send(GROUP, "b", "two");
  const send = { type: "send", ref: "1", client_msg_id: "a", msg: "one" };
  const [first, second] = outbox.takeFrames();
  assert.deepEqual(first, { ...send, to: "1001" });
  assert.equal(
    second?.type === "send" && "gid" in second && second.gid,
    "5000",
  );
  assert.deepEqual(outbox.takeFrames(), []);
  outbox.accepted("1");
  assert.equal(outbox.answered("2")?.kind, "send");
  assert.equal(outbox.answered("2"), null);
  outbox.disconnected();
  assert.deepEqual(outbox.takeFrames(), [{ ...send, to: "1001" }]);
  outbox.again("1");
  assert.deepEqual(outbox.takeFrames(), [{ ...send, to: "1001" }]);
});

test("only so many are written at a time", () => {
  const outbox = new Outbox();
  for (let i = 0; i < 40; i += 1) outbox.send(PEER, `id-${i}`, "text");
  const refs = (): string[] =>
    outbox.takeFrames().map((frame) => ("ref" in frame ? frame.ref : ""));
  assert.equal(refs().length, 32);
  outbox.answered("5");
  outbox.answered("6");
  assert.deepEqual(refs(), ["33", "34"]);
});

test("a read-ack is done once it is accepted, and a higher one stands for a lower one", () => {
  const outbox = new Outbox();
  outbox.read(PEER, 3);
  outbox.read(GROUP, 4);
  outbox.read(PEER, 5);
  outbox.read(PEER, 4);
  const acks = [
    { type: "read", ref: "2", gid: "5000", mid: 4 },
    { type: "read", ref: "4", peer: "1001", mid: 5 },
  ];
  assert.deepEqual(outbox.takeFrames(), acks);
  // It is under way, so what the gateway makes of it is not known.
  outbox.read(PEER, 6);
  assert.equal(outbox.unanswered.length, 3);
  outbox.accepted("4");
  assert.deepEqual(
    outbox.unanswered.map((item) => item.seq),
    [2, 5],
  );
});

test("a refused send stays until it is dismissed, and is not written again", () => {
  const outbox = new Outbox();
  outbox.send(PEER, "a", "one");
  outbox.read(PEER, 1);
  outbox.takeFrames();
  outbox.drainChanges();
  const refusal = { reason: "blocked", detail: "the user has blocked you" };
  const item = outbox.refuse("1", refusal);
  assert.equal(outbox.refuse("2", refusal), null, "a read-ack is done");
  assert.equal(outbox.refuse("1", refusal), null);
  assert.equal(outbox.refuse("3", refusal), null);
  assert.deepEqual(outbox.unanswered, []);
  assert.deepEqual(outbox.refused, [item]);
  // In the next life of the program, too.
  const stored = [...outbox.drainChanges().values()].filter((one) => one);
  const again = new Outbox(structuredClone(stored) as QueueItem[]);
  assert.deepEqual(again.refused, [item]);
  again.disconnected();
  assert.deepEqual(again.takeFrames(), []);
  again.dismiss("b");
  assert.deepEqual(again.refused, [item]);
  again.dismiss("a");
  assert.deepEqual(again.refused, []);
  assert.deepEqual([...again.drainChanges()], [[1, null]]);
});

test("what was drained and is not stored is drained again", () => {
  const outbox = new Outbox();
  outbox.send(PEER, "a", "one");
  outbox.read(PEER, 1);
  const lost = outbox.drainChanges();
  outbox.accepted("2");
  outbox.putBack(lost.keys());
  const changes = outbox.drainChanges();
  assert.equal(changes.get(1)?.kind, "send");
  assert.equal(changes.get(2), null);
});

test("what is stored goes on in its order", () => {
  const outbox = new Outbox();
  outbox.send(PEER, "a", "one");
  outbox.send(PEER, "b", "two");
  outbox.answered("1");
  const stored = outbox.drainChanges();
  assert.deepEqual([...stored.keys()], [1, 2]);
  assert.equal(stored.get(1), null);
  assert.equal(outbox.drainChanges().size, 0);
  const again = new Outbox([stored.get(2)!]);
  again.send(PEER, "c", "three");
  assert.deepEqual(
    again.unanswered.map((item) => item.seq),
    [2, 3],
  );
});
