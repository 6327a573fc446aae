import assert from "node:assert/strict";
import { test } from "node:test";
import { missing } from "../src/chat.js";
import type { ChatKey } from "../src/chat-key.js";
import type { EventFrame } from "../src/frames.js";
import type { Message, OwnProfile, SyncAnswer } from "../src/rest.js";
import { DeviceState } from "../src/state.js";
import { SyncToken } from "../src/token.js";
import { readVector } from "./vectors-folder.js";
import {
  ME,
  PEER,
  GROUP,
  TS,
  device,
  token,
  answer,
  take,
  message,
  groupMessage,
  change,
  read,
  membership,
  head,
  chat,
  unread,
  behind,
} from "./state-fixture.js";

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

test("the user's own profile is the newest that a sync or an event had", () => {
  type Step = {
    sync?: Omit<SyncAnswer, "next"> & { next: number };
    frame?: EventFrame;
    profile?: OwnProfile | null;
  };
  let state = new DeviceState(ME);
  for (const step of readVector<Step[]>("profile.json")) {
    const { sync, frame, profile } = step;
    if (sync) state.takeSync({ ...sync, next: token(sync.next) });
    if (frame) state.takeEvent(frame);
    if (profile !== undefined) assert.deepEqual(state.profile, profile);
    // The program ends after each step, and begins again.
    state = DeviceState.of(structuredClone(state.drainChanges().head), []);
  }
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
  assert.ok(!("edited_ts" in last()!), "as in the messages of a new device");
  take(state, 22, change("hide", 3, 3, ME, "1001"));
  assert.equal(last(), null);
  take(state, 23, change("clear", 1, 4, ME, "1001"));
  assert.deepEqual([...chat(state, PEER).messages.keys()], [2]);
  assert.equal(missing(chat(state, PEER)), null);
  // One in between was of the other user alone, and is not sent.
  take(state, 24, change("edit", 2, 6, "1001", ME));
  assert.deepEqual(missing(chat(state, PEER)), { mid: 3, chg: 4, ownPos: 0 });
});

test("the newest message is shown with its first 200 characters", () => {
  const state = device();
  const long = message(1, "1001", ME, 1);
  long.message!.msg = "😀".repeat(300);
  take(state, 11, long);
  assert.equal(chat(state, PEER).last?.msg, "😀".repeat(200));
  assert.equal(chat(state, PEER).messages.get(1)?.msg, "😀".repeat(300));
});

test("notes to oneself have no read positions, also when they are deleted", () => {
  const state = device();
  take(state, 11, message(1, ME, ME, 1));
  const flags = { favourite: false, pinned: false, muted: false };
  const deleted = { blocked: false, deleted_mid: 1, deleted_n: 0 };
  take(state, 12, { contact_change: { uid: ME, peer: ME, ...flags, ...deleted } });
  assert.deepEqual(chat(state, `user:${ME}`).readMid, { pc: 0, mobile: 0 });
});

test("a contact has the flags of its last change", () => {
  const state = device();
  take(state, 11, message(1, "1001", ME, 1));
  const flags = { favourite: true, pinned: true, muted: false, blocked: false };
  const contact = { uid: ME, peer: "1001", ...flags, deleted_mid: 1, deleted_n: 1 };
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

test("what a sync had already counts once", () => {
  const state = device();
  const read_mid = { pc: 0, mobile: 0 };
  const heads = { last: null, last_mid: 2, chg: 0, read_mid };
  const counts = { unread: { pc: 2, mobile: 2 } };
  const flags = { favourite: false, pinned: false, blocked: false };
  const of = { muted: false, ...heads, ...counts };
  const user = { peer: "1001", peer_n: 2, ...flags, ...of, at: "17:14" };
  const joined = { whole_history: false, join_mid: 0 };
  const settings = { name: "Lunch", role: "member", dissolved: false, ...joined };
  const rest = { ...of, at: "8:12" };
  const group = { gid: "5000", member_count: 3, ...settings, ...rest };
  state.takeSync(answer({ conversations: [user], groups: [group] }));
  // What is fetched is as new as the rows.
  const known = (key: ChatKey) => SyncToken.parse(state.knownOf(key) ?? "");
  assert.equal(known(PEER).get(17), 15);
  assert.equal(known(GROUP).get(8), 13);
  const deleted = { deleted_mid: 1, deleted_n: 0, ...flags, muted: false };
  take(state, 10, { contact_change: { uid: ME, peer: "1001", ...deleted } });
  assert.equal(isDeleted(state), false, "there are newer messages");
  for (const mid of [1, 2, 3]) {
    take(state, 10 + 2 * mid, message(mid, "1001", ME, mid));
    take(state, 11 + 2 * mid, groupMessage(mid, "1001"));
    const count = Math.max(2, mid);
    assert.deepEqual(unread(state, PEER), [count, count]);
    assert.deepEqual(unread(state, GROUP), [count, count]);
  }
});

test("what was before the last join is dropped", () => {
  const state = device();
  take(state, 11, membership("member", true));
  take(state, 12, groupMessage(8, "1001"));
  const read_mid = { pc: 20, mobile: 20 };
  const row = (whole_history: boolean) => ({
    gid: "5000",
    name: "Lunch",
    role: "member",
    muted: false,
    dissolved: false,
    member_count: 3,
    whole_history,
    join_mid: 20,
    last: null,
    last_mid: 20,
    chg: 0,
    unread: { pc: 0, mobile: 0 },
    read_mid,
    at: "8:9",
  });
  state.takeSync(answer({ groups: [row(false)] }));
  assert.equal(chat(state, GROUP).messages.size, 0);
  const last = groupMessage(20, "1001").message;
  state.takeSync(answer({ groups: [{ ...row(true), last }] }));
  assert.equal(chat(state, GROUP).fetched.mid, 0);
  take(state, 13, membership("member", false));
  assert.equal(chat(state, GROUP).last, null);
});

test("who joins again begins a group anew, and nothing is unread once it has ended", () => {
  const state = device();
  take(state, 11, membership("member", true));
  take(state, 12, groupMessage(8, "1001"));
  const change = membership("member", true).group_change!;
  take(state, 13, { group_change: { ...change, last_mid: 9 } });
  const { messages, with: group } = chat(state, GROUP);
  assert.equal(messages.size, 0);
  assert.equal(group.type === "group" && group.joinMid, 9);
  take(state, 14, groupMessage(10, "1001"));
  assert.deepEqual(unread(state, GROUP), [1, 1]);
  const members: [] = [];
  take(state, 15, { group_change: { ...change, members, dissolved: true } });
  assert.deepEqual(unread(state, GROUP), [0, 0]);
});

test("a dissolved group is cleared up until the user leaves it", () => {
  const state = device();
  take(state, 11, membership("member", true));
  for (const mid of [8, 9, 10]) take(state, 4 + mid, groupMessage(mid, "1001"));
  const changed = (kind: string, mid: number, chg: number, by: string) => ({
    message_change: { by, gid: "5000", mid, kind, chg, ts: TS },
  });
  const dissolved = (uid: string, role: string | null) => {
    const change = membership(role, false).group_change!;
    const members = [{ uid, role, muted: false, joined: false }];
    return { group_change: { ...change, members, dissolved: true } };
  };
  take(state, 15, dissolved(ME, "member"));
  take(state, 16, changed("recall", 9, 1, "1001"));
  take(state, 17, changed("delete", 8, 2, "1001"));
  const shown = () =>
    [...chat(state, GROUP).messages.values()].map((one) => [
      one.mid,
      one.recalled ?? false,
    ]);
  const expected = [
    [9, true],
    [10, false],
  ];
  assert.deepEqual(shown(), expected);

  assert.equal(take(state, 18, dissolved("1001", null)), GROUP);
  assert.deepEqual(shown(), expected, "another has left");
  take(state, 19, changed("clear", 10, 3, ME));
  assert.deepEqual(shown(), []);
  assert.deepEqual(unread(state, GROUP), [0, 0]);

  assert.equal(take(state, 20, dissolved(ME, null)), GROUP);
  assert.equal(state.chats.size, 0);
  assert.equal(take(state, 21, changed("recall", 10, 4, "1001")), null);
});

test("a deleted contact comes back with a newer message", () => {
  const state = device();
  const flags = { favourite: false, pinned: false, blocked: false };
  const counts = { unread: { pc: 0, mobile: 0 }, peer_n: 2, chg: 0 };
  const heads = { last: null, last_mid: 2, read_mid: { pc: 2, mobile: 2 } };
  const of = { muted: false, ...flags, ...counts, ...heads };
  const row = { peer: "1001", deleted: true, ...of };
  const synced = () => state.takeSync(answer({ conversations: [row] }));
  synced();
  take(state, 10, message(2, "1001", ME, 2));
  assert.equal(isDeleted(state), true);
  take(state, 11, message(3, "1001", ME, 3));
  assert.equal(isDeleted(state), false);
  synced();
  const { n, ...third } = message(3, "1001", ME, 3).message!;
  state.takeMessages(PEER, { items: [third] });
  assert.equal(n, 3);
  assert.equal(isDeleted(state), false);
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
  assert.equal(chat(state, PEER).messages.size, 0, "the log may be another");
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
  // The next one begins with nothing.
  again.takeSync(answer(second));
  assert.deepEqual([...again.chats.keys()], ["user:1003"]);
});

test("a full sync begins anew between the pages of another", () => {
  const at = (epoch: number, next: number) => SyncToken.of(epoch, () => next).toString();
  // The epoch was raised, or the token is ahead of the log.
  for (const [full, next] of [
    [false, at(1, 10)],
    [true, at(2, 10)],
    [true, at(1, 9)],
  ] as const) {
    const state = device();
    const gone = [row("1001", 0, "text"), row("1002", 0, "text")];
    state.takeSync(answer({ conversations: gone, more: true, full }));
    take(state, 10, message(2, "1002", ME, 2));
    const first = { conversations: [row("1002", 0, "text")], full: true, next };
    state.takeSync(answer({ ...first, more: true }));
    assert.equal(chat(state, "user:1002").messages.size, 0, "the log may be another");
    state.takeSync(answer({ ...first, conversations: [row("1003", 0, "text")] }));
    assert.deepEqual([...state.chats.keys()].sort(), ["user:1002", "user:1003"]);
  }
});

test("a change that a page had does not undo a later one", () => {
  for (const kind of ["edit", "recall"]) {
    const state = device();
    take(state, 10, message(1, "1001", ME, 1));
    take(state, 11, change("edit", 1, 1, "1001", ME));
    state.takeSync(answer({ conversations: [row("1001", 3, "newest")] }));
    const known = { mid: 1, ts: TS, msg: "newest" };
    const items = [
      { ...known, chg: 2, kind: "edit" },
      { ...known, chg: 3, kind },
    ];
    state.takeMessageChanges(PEER, behind(1), { items, next: null });
    // A sync that is behind the page.
    state.takeSync(answer({ conversations: [row("1001", 1, "edited")] }));
    take(state, 12, change("edit", 1, 2, "1001", ME));
    const { chg, last, messages } = chat(state, PEER);
    assert.equal(chg, 2);
    assert.equal(missing(chat(state, PEER)), null);
    for (const shown of [last, messages.get(1)]) {
      assert.equal(shown?.msg, kind === "edit" ? "newest" : "");
      assert.equal(shown.recalled ?? false, kind === "recall");
    }
    // The other user's is not sent.
    take(state, 13, change("edit", 1, 5, "1001", ME));
    assert.deepEqual(missing(chat(state, PEER)), { mid: 1, chg: 3, ownPos: 0 });
  }
});

test("what has no number is fetched up to its offset", () => {
  const state = device();
  const mids = () => [...chat(state, PEER).messages.keys()].sort();
  for (const mid of [1, 2, 3]) {
    take(state, 9 + mid, message(mid, "1001", ME, mid));
  }
  take(state, 13, change("hide", 1, 0, ME, "1001"));
  assert.equal(chat(state, PEER).ownPos, 13);
  assert.equal(missing(chat(state, PEER)), null);
  const told = { ...row("1001", 0, "text"), last_mid: 3, own_pos: 20 };
  state.takeSync(answer({ conversations: [told] }));
  const after = missing(chat(state, PEER));
  assert.deepEqual(after, { mid: 3, chg: 0, ownPos: 13 });
  // A page has a hide of a message that has yet to be fetched, and then the stream has both.
  const own = (mid: number, own_pos: number) => {
    return { chg: 0, own_pos, mid, kind: "hide", ts: TS };
  };
  const items = [own(2, 20), own(4, 24)];
  state.takeMessageChanges(PEER, after!, { items, next: null });
  assert.deepEqual(mids(), [3]);
  assert.equal(missing(chat(state, PEER)), null);
  take(state, 23, message(4, "1001", ME, 4));
  take(state, 24, change("hide", 4, 0, ME, "1001"));
  assert.deepEqual(mids(), [3]);
  assert.equal(chat(state, PEER).ownPos, 24);
});

test("a recalled message does not get its text back", () => {
  const state = device();
  take(state, 11, message(1, "1001", ME, 1));
  // The page of messages has it, and the one of changes is not there yet.
  take(state, 12, message(3, "1001", ME, 3));
  const second = message(2, "1001", ME, 2).message!;
  const third = message(3, "1001", ME, 3).message!;
  const items = [second, { ...third, msg: "", recalled: true }];
  state.takeMessages(PEER, { items, next: null });
  take(state, 13, change("edit", 3, 1, "1001", ME));
  assert.equal(chat(state, PEER).messages.get(3)?.msg, "");
  assert.equal(chat(state, PEER).last?.msg, "");
});

test("a head of what is there shows the newest message", () => {
  const state = device();
  take(state, 11, membership("member", true));
  const items = [groupMessage(8, "1001").message];
  state.takeMessages(GROUP, { items, next: null });
  state.takeSync(answer({ groups: [groupRow(7, 7, 0, false)] }));
  head(state, 15, 8, 0);
  assert.equal(missing(chat(state, GROUP)), null);
  assert.equal(chat(state, GROUP).last?.mid, 8);
});

test("what is fetched anew is changed anew", () => {
  const state = device();
  state.takeSync(answer({ groups: [groupRow(0, 1, 1, false)] }));
  const items = [groupMessage(1, "1001").message];
  state.takeMessages(GROUP, { items, next: null });
  const recall = { chg: 2, mid: 1, kind: "recall", ts: TS };
  state.takeMessageChanges(GROUP, behind(0), { items: [recall], next: null });
  state.takeSync(answer({ groups: [groupRow(1, 1, 1, true)] }));
  assert.deepEqual(missing(chat(state, GROUP)), { mid: 0, chg: 0, ownPos: 0 });
});

function row(peer: string, chg: number, msg: string) {
  const flags = { favourite: false, pinned: false, muted: false, blocked: false };
  const last = { ...message(1, peer, ME, 1).message!, msg };
  return {
    ...{ peer, last, last_mid: 1, chg, peer_n: 1, ...flags },
    unread: { pc: 1, mobile: 1 },
    read_mid: { pc: 0, mobile: 0 },
    at: "17:10",
  };
}

function groupRow(
  join_mid: number,
  last_mid: number,
  chg: number,
  whole_history: boolean,
) {
  const settings = { name: "Lunch", role: "member", muted: false };
  const of = { dissolved: false, member_count: 3, whole_history, join_mid };
  const read_mid = { pc: last_mid, mobile: last_mid };
  const counts = { unread: { pc: 0, mobile: 0 }, read_mid, at: "8:10" };
  return { gid: "5000", ...settings, ...of, last: null, last_mid, chg, ...counts };
}

function isDeleted(state: DeviceState): boolean {
  const other = chat(state, PEER).with;
  return other.type === "user" && other.deleted;
}
