import assert from "node:assert/strict";
import type { ChangesAfter, Chat } from "../src/chat.js";
import type { ChatKey } from "../src/chat-key.js";
import type { EventFrame } from "../src/frames.js";
import type { Message, SyncAnswer } from "../src/rest.js";
import { DeviceState } from "../src/state.js";
import { SyncToken } from "../src/token.js";

export const ME = "1000";
export const PEER: ChatKey = "user:1001";
export const GROUP: ChatKey = "group:5000";
export const TS = "2026-11-26T00:00:00Z";

/** Has synced, and knows everything below offset 10. */
export function device(): DeviceState {
  const state = new DeviceState(ME);
  assert.equal(state.takeSync(answer({})), false);
  return state;
}

export function token(next: number): string {
  return SyncToken.of(1, () => next).toString();
}

export function answer(more: Partial<SyncAnswer>): SyncAnswer {
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

export type Body = Omit<EventFrame, "type" | "at">;

export function take(
  state: DeviceState,
  offset: number,
  body: Body,
): ChatKey | null {
  return state.takeEvent({ type: "event", at: `17:${offset}`, ...body });
}

export function message(
  mid: number,
  srcid: string,
  destid: string,
  n: number,
): Body {
  const text = { msg: `text ${mid}`, ts: TS, client_msg_id: `id-${mid}` };
  return { message: { mid, n, srcid, destid, ...text } };
}

export function groupMessage(
  mid: number,
  srcid: string,
): { message: Message } & Body {
  const text = { msg: `text ${mid}`, ts: TS, client_msg_id: "c" };
  return { message: { mid, srcid, gid: "5000", ...text } };
}

export function change(
  kind: string,
  mid: number,
  chg: number,
  by: string,
  peer: string,
): Body {
  const msg = kind === "edit" ? { msg: "edited" } : {};
  return { message_change: { by, peer, mid, kind, chg, ts: TS, n: 2, ...msg } };
}

/** Changes with a number, up to this one. */
export function behind(chg: number): ChangesAfter {
  return { chg, ownPos: 0 };
}

export function read(mid: number, n?: number): Body {
  const of = { peer: "1001", device: "pc" as const };
  return { read_position: { uid: ME, ...of, mid, ...(n !== undefined && { n }) } };
}

export function membership(role: string | null, joined: boolean): Body {
  const of = { whole_history: false, dissolved: false, member_count: 3 };
  const others = { owner: "1001", open: true, muted: false };
  const made = { by: "1001", kind: joined ? "add" : "set_role" };
  const settings = { name: "Lunch", ...of, ...others, ...made };
  const members = [{ uid: ME, role, muted: false, joined }];
  return { group_change: { gid: "5000", ...settings, last_mid: 7, members } };
}

export function head(
  state: DeviceState,
  offset: number,
  mid: number,
  chg: number,
  own_mid = 0,
) {
  const at = `8:${offset}`;
  const until = `8:${offset + 4}`;
  const of = { gid: "5000", mid, chg, own_mid };
  return state.takeHead({ type: "head", at, until, ...of });
}

export function chat(state: DeviceState, key: ChatKey): Chat {
  const found = state.chats.get(key);
  assert.ok(found, key);
  return found;
}

export function unread(state: DeviceState, key: ChatKey): (number | null)[] {
  const { pc, mobile } = chat(state, key).unread;
  return [pc, mobile];
}
