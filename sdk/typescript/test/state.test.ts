import assert from "node:assert/strict";
import { test } from "node:test";
import { missing, type Chat, type ChatKey } from "../src/chat.js";
import type { EventFrame } from "../src/frames.js";
import type { Message, SyncAnswer } from "../src/rest.js";
import { DeviceState } from "../src/state.js";
import { SyncToken } from "../src/token.js";

const ME = "1000";
const PEER: ChatKey = "user:1001";
const GROUP: ChatKey = "group:5000";
const TS = "2026-11-26T00:00:00Z";

/** Has synced, and knows everything below offset 10. */
function device(): DeviceState {
  const state = new DeviceState(ME);
  assert.equal(state.takeSync(answer({})), false);
  return state;
}

function token(next: number): string {
  return SyncToken.of(1, () => next).toString();
}

function answer(more: Partial<SyncAnswer>): SyncAnswer {
  return {
    conversations: [],
    groups: [],
    left: [],
    next: token(10),
    more: false,
    full: false,
    ...more,
  };
}

type Body = Omit<EventFrame, "type" | "at">;

function take(state: DeviceState, offset: number, body: Body): ChatKey | null {
  return state.takeEvent({ type: "event", at: `17:${offset}`, ...body });
}

function message(mid: number, srcid: string, destid: string, n: number): Body {
  const text = { msg: `text ${mid}`, ts: TS, client_msg_id: `id-${mid}` };
  return { message: { mid, n, srcid, destid, ...text } };
}

function groupMessage(mid: number, srcid: string): { message: Message } & Body {
  const text = { msg: `text ${mid}`, ts: TS, client_msg_id: "c" };
  return { message: { mid, srcid, gid: "5000", ...text } };
}

function change(
  kind: string,
  mid: number,
  chg: number,
  by: string,
  peer: string,
): Body {
  const msg = kind === "edit" ? { msg: "edited" } : {};
  return { message_change: { by, peer, mid, kind, chg, ts: TS, n: 2, ...msg } };
}

function read(mid: number, n?: number): Body {
  const of = { peer: "1001", device: "pc" as const };
  return { read_position: { ...of, mid, n: n ?? null } };
}

function membership(role: string | null, joined: boolean): Body {
  const settings = { name: "Lunch", dissolved: false, member_count: 3 };
  const members = [{ uid: ME, role, muted: false, joined }];
  return { group_change: { gid: "5000", ...settings, last_mid: 7, members } };
}

function head(state: DeviceState, offset: number, mid: number, chg: number) {
  const at = `17:${offset}`;
  return state.takeHead({ type: "head", at, gid: "5000", mid, chg });
}

function chat(state: DeviceState, key: ChatKey): Chat {
  const found = state.chats.get(key);
  assert.ok(found, key);
  return found;
}

function unread(state: DeviceState, key: ChatKey): (number | null)[] {
  const { pc, mobile } = chat(state, key).unread;
  return [pc, mobile];
}

test("what is below the token is ignored, and what is handled moves it", () => {
  const state = device();
  assert.equal(take(state, 9, message(1, "1001", ME, 1)), null);
  assert.equal(state.chats.size, 0);
  assert.equal(take(state, 10, message(1, "1001", ME, 1)), PEER);
  assert.equal(take(state, 10, message(1, "1001", ME, 1)), null);
  assert.deepEqual(unread(state, PEER), [1, 1]);
  assert.equal(SyncToken.parse(state.token!).get(17), 11);
  state.takePing(token(30));
  assert.equal(take(state, 29, message(2, "1001", ME, 2)), null);
  state.takePing(token(20));
  assert.equal(take(state, 29, message(2, "1001", ME, 2)), null);
});

test("an event of a later version moves the token", () => {
  const state = device();
  assert.equal(take(state, 12, {}), null);
  assert.equal(SyncToken.parse(state.token!).get(17), 13);
});

test("nothing is taken before the first sync", () => {
  const state = new DeviceState(ME);
  assert.equal(take(state, 10, message(1, "1001", ME, 1)), null);
  state.takePing(token(30));
  assert.equal(state.token, null);
});

test("unread counts follow from ordinals", () => {
  const state = device();
  take(state, 11, message(1, "1001", ME, 1));
  take(state, 12, message(2, ME, "1001", 1));
  take(state, 13, message(3, "1001", ME, 2));
  take(state, 14, message(4, "1001", ME, 3));
  assert.deepEqual(unread(state, PEER), [3, 3]);
  take(state, 20, read(3, 2));
  assert.deepEqual(unread(state, PEER), [1, 3]);
  take(state, 21, read(4));
  assert.deepEqual(unread(state, PEER), [null, 3]);
  take(state, 22, change("clear", 4, 1, ME, "1001"));
  assert.deepEqual(unread(state, PEER), [null, 1]);
});

test("changes show in messages and in the newest", () => {
  const state = device();
  const last = (): Message | null => chat(state, PEER).last;
  for (const mid of [1, 2, 3]) {
    take(state, 10 + mid, message(mid, "1001", ME, mid));
  }
  take(state, 20, change("edit", 3, 1, "1001", ME));
  assert.equal(last()?.msg, "edited");
  take(state, 21, change("recall", 3, 2, "1001", ME));
  assert.deepEqual([last()?.recalled, last()?.msg], [true, ""]);
  take(state, 22, change("hide", 3, 3, ME, "1001"));
  assert.equal(last(), null);
  take(state, 23, change("clear", 1, 4, ME, "1001"));
  assert.deepEqual([...chat(state, PEER).messages.keys()], [2]);
  assert.equal(missing(chat(state, PEER)), null);
  // One in between was of the other user alone, and is not sent.
  take(state, 24, change("edit", 2, 6, "1001", ME));
  assert.deepEqual(missing(chat(state, PEER)), { mid: 3, chg: 4 });
});

test("the newest message is shown with its first 200 characters", () => {
  const state = device();
  const long = message(1, "1001", ME, 1);
  long.message!.msg = "😀".repeat(300);
  take(state, 11, long);
  assert.equal(chat(state, PEER).last?.msg, "😀".repeat(200));
  assert.equal(chat(state, PEER).messages.get(1)?.msg, "😀".repeat(300));
});

test("a contact has the flags of its last change", () => {
  const state = device();
  take(state, 11, message(1, "1001", ME, 1));
  const flags = { favourite: true, pinned: true, muted: false, blocked: false };
  const contact = { peer: "1001", ...flags, deleted_mid: 1, deleted_n: 1 };
  assert.equal(take(state, 12, { contact_change: contact }), PEER);
  const peer = { type: "user", flags, deleted: true, peerN: 1 };
  assert.deepEqual(chat(state, PEER).with, peer);
  assert.deepEqual(unread(state, PEER), [0, 0]);
  take(state, 13, message(2, "1001", ME, 2));
  assert.deepEqual(chat(state, PEER).with, {
    ...peer,
    deleted: false,
    peerN: 2,
  });
});

test("a group is there between join and leave", () => {
  const state = device();
  assert.equal(take(state, 10, groupMessage(7, "1001")), null);
  take(state, 11, membership("member", true));
  assert.deepEqual(unread(state, GROUP), [0, 0]);
  take(state, 12, groupMessage(8, "1001"));
  assert.deepEqual(unread(state, GROUP), [1, 1]);
  take(state, 13, groupMessage(9, ME));
  assert.deepEqual(unread(state, GROUP), [0, 0]);
  take(state, 14, membership("admin", false));
  assert.equal(chat(state, GROUP).messages.size, 2, "a role is no join");
  take(state, 15, membership(null, false));
  assert.equal(state.chats.size, 0);
});

test("a head is counted once it is fetched", () => {
  const state = device();
  take(state, 11, membership("member", true));
  assert.equal(head(state, 15, 10, 1), GROUP);
  assert.deepEqual(unread(state, GROUP), [null, null]);
  assert.deepEqual(missing(chat(state, GROUP)), { mid: 0, chg: 0 });
  const items = [
    groupMessage(8, "1001").message,
    groupMessage(9, ME).message,
    groupMessage(10, "1001").message,
  ];
  state.takeMessages(GROUP, { items, next: null });
  assert.deepEqual(unread(state, GROUP), [1, 1]);
  const recall = { chg: 1, mid: 10, kind: "recall", ts: TS };
  state.takeMessageChanges(GROUP, 0, { items: [recall], next: null });
  assert.equal(chat(state, GROUP).last?.recalled, true);
  assert.equal(missing(chat(state, GROUP)), null);
});

test("a message that a page had before its event came counts once", () => {
  const state = device();
  take(state, 11, membership("member", true));
  head(state, 15, 9, 0);
  const items = [8, 9, 10].map((mid) => groupMessage(mid, "1001").message);
  state.takeMessages(GROUP, { items, next: null });
  assert.deepEqual(unread(state, GROUP), [3, 3]);
  take(state, 16, groupMessage(10, "1001"));
  assert.deepEqual(unread(state, GROUP), [3, 3]);
});

test("an event does not undo what a page has of its message", () => {
  const state = device();
  take(state, 11, membership("member", true));
  head(state, 15, 8, 1);
  const edited = { ...groupMessage(9, "1001").message, msg: "edited" };
  const items = [groupMessage(8, "1001").message, edited];
  state.takeMessages(GROUP, { items, next: null });
  const edit = (mid: number, chg: number) => {
    const msg = mid === 9 ? edited.msg : "other";
    return { chg, mid, kind: "edit", ts: TS, msg };
  };
  state.takeMessageChanges(GROUP, 0, { items: [edit(8, 1), edit(9, 2)] });
  take(state, 16, groupMessage(9, "1001"));
  head(state, 17, 9, 2);
  assert.equal(chat(state, GROUP).messages.get(9)?.msg, "edited");
  assert.equal(chat(state, GROUP).last?.msg, "edited");
});

test("a change of a message that is not known yet comes again", () => {
  const state = device();
  take(state, 11, membership("member", true));
  head(state, 15, 8, 1);
  const items = [groupMessage(8, "1001").message];
  state.takeMessages(GROUP, { items, next: null });
  const recall = (mid: number, chg: number) => {
    return { chg, mid, kind: "recall", ts: TS };
  };
  // The ninth message was sent and recalled after the messages were read.
  state.takeMessageChanges(GROUP, 0, { items: [recall(8, 1), recall(9, 2)] });
  take(state, 16, groupMessage(9, "1001"));
  head(state, 17, 9, 2);
  assert.deepEqual(missing(chat(state, GROUP)), { mid: 9, chg: 1 });
});

test("a head counts although a sync has moved the token over it", () => {
  const state = device();
  take(state, 11, membership("member", true));
  state.takePing(token(30));
  // It stands for messages behind its own position, too.
  assert.equal(head(state, 29, 10, 1), GROUP);
  assert.deepEqual(missing(chat(state, GROUP)), { mid: 0, chg: 0 });
  assert.equal(chat(state, GROUP).lastMid, 10);
});

test("what a sync had already counts once", () => {
  const state = device();
  const read_mid = { pc: 0, mobile: 0 };
  const heads = { last: null, last_mid: 2, chg: 0, read_mid };
  const counts = { unread: { pc: 2, mobile: 2 } };
  const flags = { favourite: false, pinned: false, blocked: false };
  const of = { muted: false, ...heads, ...counts };
  const user = { peer: "1001", peer_n: 2, ...flags, ...of };
  const settings = { name: "Lunch", role: "member", dissolved: false };
  const group = { gid: "5000", member_count: 3, ...settings, ...of };
  state.takeSync(answer({ conversations: [user], groups: [group] }));
  const deleted = { deleted_mid: 1, deleted_n: 0, ...flags, muted: false };
  take(state, 10, { contact_change: { peer: "1001", ...deleted } });
  for (const mid of [1, 2, 3]) {
    take(state, 10 + 2 * mid, message(mid, "1001", ME, mid));
    take(state, 11 + 2 * mid, groupMessage(mid, "1001"));
  }
  assert.deepEqual(unread(state, PEER), [3, 3]);
  assert.deepEqual(unread(state, GROUP), [3, 3]);
  const other = chat(state, PEER).with;
  assert.equal(other.type === "user" && other.deleted, false);
});

test("a full sync drops what none of its pages has", () => {
  const state = device();
  take(state, 10, message(1, "1001", ME, 1));
  take(state, 11, message(1, "1002", ME, 1));
  const flags = {
    favourite: false,
    pinned: false,
    muted: false,
    blocked: false,
  };
  const row = (peer: string) => ({
    ...{ peer, last: null, last_mid: 1, chg: 0, peer_n: 1, ...flags },
    unread: { pc: 1, mobile: 1 },
    read_mid: { pc: 0, mobile: 0 },
  });
  const first = { conversations: [row("1001")], more: true, full: true };
  assert.equal(state.takeSync(answer(first)), true);
  assert.equal(state.chats.size, 2);
  // The program may end in between.
  const { head: stored, chats } = state.drainChanges();
  const kept = [...chats.values()].filter((one) => one !== null);
  const again = DeviceState.of(stored, structuredClone(kept));
  const second = { conversations: [row("1003")], full: true };
  assert.equal(again.takeSync(answer(second)), false);
  assert.deepEqual([...again.chats.keys()], [PEER, "user:1003"]);
  assert.equal(again.fullSyncs, 1);
  const gone = again.drainChanges().chats;
  assert.deepEqual(
    [...gone].filter(([, one]) => one === null),
    [["user:1002", null]],
  );
});
