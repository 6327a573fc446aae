import assert from "node:assert/strict";
import { test } from "node:test";
import { Updates, type Update } from "../src/updates.js";

test("a chat waits once, however often it changes", async () => {
  const updates = new Updates();
  const seen = updates.subscribe();
  updates.emit({ type: "chat", chat: "user:1" });
  updates.emit({ type: "chat", chat: "user:2" });
  updates.emit({ type: "chat", chat: "user:1" });
  const one = await seen.next();
  assert.deepEqual(one.value, { type: "chat", chat: "user:1" });
  updates.emit({ type: "chat", chat: "user:1" });
  updates.end(null);
  const rest = [];
  for await (const update of seen) rest.push(update);
  assert.deepEqual(rest, [
    { type: "chat", chat: "user:2" },
    { type: "chat", chat: "user:1" },
  ]);
});

test("of who types and who is there the last word waits", async () => {
  const updates = new Updates();
  const seen = updates.subscribe();
  const rest = { uid: "1", classes: [], lastSeen: null };
  const presence = (online: boolean | null): Update => {
    return { type: "presence", online, ...rest };
  };
  const typing = (from: string): Update => {
    return { type: "typing", chat: "group:5", from };
  };
  updates.emit(presence(true));
  for (const from of ["1", "2", "1"]) updates.emit(typing(from));
  updates.emit(presence(null));
  updates.end(null);
  const all = [];
  for await (const update of seen) all.push(update);
  assert.deepEqual(all, [presence(null), typing("1"), typing("2")]);
});

test("every iterator has all updates from its beginning on, and the error", async () => {
  const updates = new Updates();
  const early = updates.subscribe();
  const waiting = early.next();
  updates.emit({ type: "connected" });
  assert.deepEqual((await waiting).value, { type: "connected" });
  const late = updates.subscribe();
  updates.emit({ type: "synced" });
  assert.deepEqual((await late.next()).value, { type: "synced" });
  updates.end(new Error("replaced"));
  await assert.rejects(late.next(), /replaced/);
  assert.deepEqual((await early.next()).value, { type: "synced" });
  await assert.rejects(early.next(), /replaced/);
  assert.equal((await early.next()).done, true);
  await assert.rejects(updates.subscribe().next(), /replaced/);
});

test("an iterator that is left takes nothing more", async () => {
  const updates = new Updates();
  const seen = updates.subscribe();
  updates.emit({ type: "connected" });
  for await (const update of seen) {
    assert.equal(update.type, "connected");
    break;
  }
  updates.emit({ type: "synced" });
  assert.equal((await seen.next()).done, true);
});
