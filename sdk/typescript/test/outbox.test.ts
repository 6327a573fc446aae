import assert from "node:assert/strict";
import { test } from "node:test";
import type { ChatKey } from "../src/chat-key.js";
import type { ClientFrame } from "../src/frames.js";
import { Outbox, type QueuedSend, type QueueItem } from "../src/outbox.js";
import { readVector } from "./vectors-folder.js";

const PEER = "user:1001";

type Step = {
  send?: { chat: ChatKey; client_msg_id: string; msg: string; after_mid?: number };
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
  hours?: number;
  ends?: true;
  unsure?: [ref: string, afterMid: number][];
  looked_for?: string;
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
  if (send) {
    const { chat, client_msg_id, msg, after_mid = 0 } = send;
    outbox.send(chat, client_msg_id, msg, after_mid);
  }
  for (let n = 0; n < sends; n += 1) {
    outbox.send(`user:${1001 + n}`, `id-${n}`, "text", 0);
  }
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
  if (step.looked_for) outbox.lookedFor(Number(step.looked_for));
  if (step.unsure) {
    const unsure = outbox.unsure.map((item) => [String(item.seq), item.afterMid]);
    assert.deepEqual(unsure, step.unsure);
  }
}

for (const name of ["outbox.json", "outbox-order.json"]) {
  test(`an outbox does what that of the device in Rust does (${name})`, () => {
    const outbox = new Outbox();
    for (const step of readVector<Step[]>(name)) take(outbox, step);
  });
}

test("an outbox looks for old sends as that of the device in Rust does", (t) => {
  let now = 1_764_000_000_000;
  t.mock.method(Date, "now", () => now);
  let outbox = new Outbox();
  const stored = new Map<number, QueueItem | null>();
  for (const step of readVector<Step[]>("outbox-old.json")) {
    now += (step.hours ?? 0) * 3_600_000;
    take(outbox, step);
    for (const [seq, item] of outbox.drainChanges()) stored.set(seq, item);
    if (!step.ends) continue;
    const items = [...stored.values()].filter((item) => item !== null);
    outbox = new Outbox(structuredClone(items));
  }
});

test("a send that an earlier version has stored is looked for", () => {
  const { sentAt, afterMid, ...old } = queued(new Outbox());
  const outbox = new Outbox([old]);
  assert.deepEqual(outbox.unsure, [old]);
});

function queued(outbox: Outbox): QueuedSend {
  outbox.send(PEER, "a", "one", 0);
  return outbox.drainChanges().get(1) as QueuedSend;
}

test("a refused send stays until it is dismissed, and is not written again", () => {
  const outbox = new Outbox();
  outbox.send(PEER, "a", "one", 0);
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
  for (const id of ["a", "b", "c"]) outbox.send(`user:100${id.length}`, id, id, 0);
  outbox.send(PEER, "d", "d", 0);
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
  outbox.send(PEER, "a", "one", 0);
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
  outbox.send(PEER, "a", "one", 0);
  outbox.send(PEER, "b", "two", 0);
  outbox.answered("1");
  const stored = outbox.drainChanges();
  assert.deepEqual([...stored.keys()], [1, 2]);
  assert.equal(stored.get(1), null);
  assert.equal(outbox.drainChanges().size, 0);
  const again = new Outbox([stored.get(2)!]);
  again.send(PEER, "c", "three", 0);
  assert.deepEqual(
    again.unanswered.map((item) => item.seq),
    [2, 3],
  );
});
