import assert from "node:assert/strict";
import { test } from "node:test";
import type { ChatKey } from "../src/chat.js";
import type { ClientFrame } from "../src/frames.js";
import { Outbox, type QueueItem } from "../src/outbox.js";
import { readVector } from "./vectors-folder.js";

const PEER = "user:1001";

type Step = {
  send?: { chat: ChatKey; client_msg_id: string; msg: string };
  sends?: number;
  read?: { chat: ChatKey; mid: number };
  frames?: ClientFrame[];
  written?: string[];
  unanswered?: number;
  accepted?: string;
  sent?: string;
  refused?: string;
  held?: string;
  again?: string;
  disconnected?: true;
};

/** What an outbox writes now. */
function framesOf(outbox: Outbox): ClientFrame[] {
  const frames: ClientFrame[] = [];
  outbox.write((frame) => {
    frames.push(frame);
    return 0;
  });
  return frames;
}

function take(outbox: Outbox, step: Step): void {
  const { send, sends = 0, read, frames, written, unanswered } = step;
  if (send) outbox.send(send.chat, send.client_msg_id, send.msg);
  for (let n = 0; n < sends; n += 1) outbox.send(`user:${1001 + n}`, `id-${n}`, "text");
  if (read) outbox.read(read.chat, read.mid);
  if (frames) assert.deepEqual(framesOf(outbox), frames);
  if (written) {
    const refs = framesOf(outbox).map((one) => "ref" in one && one.ref);
    assert.deepEqual(refs, written);
  }
  if (unanswered !== undefined) {
    assert.equal(outbox.unanswered.length, unanswered);
  }
  if (step.accepted) outbox.accepted(step.accepted);
  if (step.sent) outbox.answered(step.sent);
  if (step.refused) outbox.refuse(step.refused, { reason: "", detail: "" });
  if (step.held) outbox.hold(step.held);
  if (step.again) outbox.again(step.again);
  if (step.disconnected) outbox.disconnected();
}

for (const name of ["outbox.json", "outbox-order.json"]) {
  test(`an outbox does what that of the device in Rust does (${name})`, () => {
    const outbox = new Outbox();
    for (const step of readVector<Step[]>(name)) take(outbox, step);
  });
}

test("a refused send stays until it is dismissed, and is not written again", () => {
  const outbox = new Outbox();
  outbox.send(PEER, "a", "one");
  outbox.read(PEER, 1);
  framesOf(outbox);
  outbox.drainChanges();
  const refusal = { reason: "blocked", detail: "the user has blocked you" };
  const item = outbox.refuse("1", refusal);
  assert.equal(outbox.refuse("2", refusal)?.kind, "read");
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
  assert.deepEqual(framesOf(again), []);
  again.dismiss("b");
  assert.deepEqual(again.refused, [item]);
  again.dismiss("a");
  assert.deepEqual(again.refused, []);
  assert.deepEqual([...again.drainChanges()], [[1, null]]);
});

test("what may not be written yet is written later, in its order", () => {
  const outbox = new Outbox();
  for (const id of ["a", "b", "c"]) outbox.send(`user:100${id.length}`, id, id);
  outbox.send(PEER, "d", "d");
  outbox.read(PEER, 1);
  let budget = 1;
  const written: ClientFrame[] = [];
  const write = (frame: ClientFrame): number => {
    if (written.length >= budget) return 7;
    written.push(frame);
    return 0;
  };
  assert.equal(outbox.write(write), 7);
  budget = 5;
  assert.equal(outbox.write(write), 0);
  const refs = written.map((one) => "ref" in one && one.ref);
  assert.deepEqual(refs, ["1", "5"]);
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
