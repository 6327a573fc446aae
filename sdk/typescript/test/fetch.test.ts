import assert from "node:assert/strict";
import { test } from "node:test";
import { missing } from "../src/chat.js";
import { SyncToken } from "../src/token.js";
import {
  ME,
  GROUP,
  TS,
  device,
  token,
  take,
  groupMessage,
  membership,
  head,
  chat,
  unread,
  behind,
} from "./state-fixture.js";

test("what a head stands for is counted and fetched", () => {
  const state = device();
  take(state, 11, membership("member", true));
  assert.equal(head(state, 15, 10, 1, 9), GROUP);
  assert.deepEqual(unread(state, GROUP), [1, 1]);
  assert.equal(SyncToken.parse(state.token!).get(8), 16);
  // A page that is older would be taken for all there is.
  assert.equal(SyncToken.parse(state.knownOf(GROUP) ?? "").get(8), 20);
  assert.deepEqual(missing(chat(state, GROUP)), { mid: 0, chg: 0, ownPos: 0 });
  const items = [
    groupMessage(8, "1001").message,
    groupMessage(9, ME).message,
    groupMessage(10, "1001").message,
  ];
  state.takeMessages(GROUP, { items, next: null });
  assert.deepEqual(unread(state, GROUP), [1, 1]);
  const recall = { chg: 1, mid: 10, kind: "recall", ts: TS };
  state.takeMessageChanges(GROUP, behind(0), { items: [recall], next: null });
  assert.equal(chat(state, GROUP).last?.recalled, true);
  assert.equal(missing(chat(state, GROUP)), null);
});

test("a head is followed by what it stood for where the stream begins again", () => {
  const state = device();
  take(state, 11, membership("member", true));
  head(state, 12, 8, 0);
  take(state, 13, groupMessage(8, "1001"));
  assert.equal(chat(state, GROUP).last?.mid, 8);
});

test("a message that a page had before its event came counts once", () => {
  const state = device();
  take(state, 11, membership("member", true));
  head(state, 15, 9, 0);
  assert.deepEqual(unread(state, GROUP), [2, 2]);
  const items = [8, 9, 10].map((mid) => groupMessage(mid, "1001").message);
  state.takeMessages(GROUP, { items, next: null });
  assert.deepEqual(unread(state, GROUP), [3, 3]);
  take(state, 16, groupMessage(10, "1001"));
  assert.deepEqual(unread(state, GROUP), [3, 3]);
});

test("a page that has a message of the user's own has been read up to there", () => {
  const state = device();
  take(state, 11, membership("member", true));
  head(state, 15, 9, 0);
  const authors = ["1001", ME, "1001"];
  const items = authors.map((uid, i) => groupMessage(8 + i, uid).message);
  state.takeMessages(GROUP, { items, next: null });
  assert.deepEqual(unread(state, GROUP), [1, 1]);
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
  state.takeMessageChanges(GROUP, behind(0), { items: [edit(8, 1), edit(9, 2)] });
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
  state.takeMessageChanges(GROUP, behind(0), { items: [recall(8, 1), recall(9, 2)] });
  state.takeMessageChanges(GROUP, behind(2), { items: [recall(8, 3)] });
  take(state, 16, groupMessage(9, "1001"));
  head(state, 17, 9, 3);
  assert.deepEqual(missing(chat(state, GROUP)), { mid: 9, chg: 1, ownPos: 0 });
});

test("a head counts although a sync has moved the token over it", () => {
  const state = device();
  take(state, 11, membership("member", true));
  state.takePing(token(30));
  // It stands for messages behind its own position, too.
  assert.equal(head(state, 29, 10, 1), GROUP);
  assert.deepEqual(missing(chat(state, GROUP)), { mid: 0, chg: 0, ownPos: 0 });
  assert.equal(chat(state, GROUP).lastMid, 10);
});

test("a page of another part of the history is not taken", () => {
  const state = device();
  take(state, 11, membership("member", true));
  head(state, 15, 8, 1);
  // The group has been switched to its whole history, or back, and the device has yet to hear of it.
  for (const begins_after_mid of [0, 7]) {
    const before = missing(chat(state, GROUP));
    assert.deepEqual(before, { mid: 0, chg: 0, ownPos: 0 });
    const items = [groupMessage(8, "1001").message];
    state.takeMessages(GROUP, { items, begins_after_mid });
    const recall = { chg: 1, mid: 8, kind: "recall", ts: TS };
    state.takeMessageChanges(GROUP, behind(0), { items: [recall], begins_after_mid });
  }
  assert.equal(missing(chat(state, GROUP)), null);
});

test("a page may be empty and not the last", () => {
  const state = device();
  take(state, 11, membership("member", true));
  head(state, 15, 9, 6);
  const hidden = { items: [], next: "after_mid=8" };
  assert.equal(state.takeMessages(GROUP, hidden), 8);
  assert.deepEqual(missing(chat(state, GROUP)), { mid: 8, chg: 0, ownPos: 0 });
  const items = [groupMessage(9, "1001").message];
  assert.equal(state.takeMessages(GROUP, { items }), null);
  const ofOthers = { items: [], next: "after_chg=5" };
  assert.deepEqual(
    state.takeMessageChanges(GROUP, behind(0), ofOthers),
    behind(5),
  );
  assert.deepEqual(missing(chat(state, GROUP)), { mid: 9, chg: 5, ownPos: 0 });
  assert.equal(state.takeMessageChanges(GROUP, behind(5), { items: [] }), null);
  assert.equal(missing(chat(state, GROUP)), null);
});
