import type { ChatKey } from "./chat-key.js";
import { parsePosition, type Flags, type PerDevice } from "./frames.js";
import type { ListedGroup, Message, SyncedConversation } from "./rest.js";

/** How many characters of the newest message a list shows. */
const PREVIEW_CHARS = 200;

/** What only a conversation of two users has. */
export interface WithUser {
  type: "user";
  /** What the device's user has set. */
  flags: Flags;
  /** The contact is deleted, and there is no newer message: lists leave it out. */
  deleted: boolean;
  /** How many messages the other has sent. */
  peerN: number;
}

/** What only a group has. */
export interface WithGroup {
  type: "group";
  name: string;
  /** The user's role. */
  role: string;
  /** The user is muted, and does not send. */
  muted: boolean;
  /** It has ended. */
  dissolved: boolean;
  memberCount: number;
  /** The user sees what was sent before joining. */
  wholeHistory: boolean;
  /** The newest message when the user joined. */
  joinMid: number;
}

/** A conversation or group of a user, as one of the user's devices has it: plain data, which a storage can clone. */
export interface Chat {
  readonly key: ChatKey;
  with: WithUser | WithGroup;
  /** The newest message, with the first 200 characters of its text; `null` where the user does not see it, there is none, or it has yet to be fetched. */
  last: Message | null;
  /** The number of the newest message; 0 where there is none. */
  lastMid: number;
  /** The number of the last change that the user has to know of; 0 where there is none. */
  chg: number;
  /** Where in `chat.events` the user has hidden or cleared something last that has no number; 0 where that never was. */
  ownPos: number;
  /** Up to where the user has read. */
  readMid: PerDevice<number>;
  /** How many messages are unread; `null` where that cannot be counted. */
  unread: PerDevice<number | null>;
  /** The messages that the device has, as they are now, in the order in which they came. */
  messages: Map<number, Message>;
  /** All messages and changes up to here were handled. */
  fetched: Fetched;
  /** Nothing is known of events from this offset on, but what the device's token covers. */
  knownTo: number;
}

/** Up to where all messages and changes were handled. */
export interface Fetched extends ChangesAfter {
  mid: number;
}

/** Up to where changes are known. */
export interface ChangesAfter {
  /** Those with a number, up to this one. */
  chg: number;
  /** What the user has hidden and cleared without a number, up to this offset in `chat.events`. */
  ownPos: number;
}

/** With a user, before the first message. */
export function newChat(key: ChatKey): Chat {
  const flags = {
    favourite: false,
    pinned: false,
    muted: false,
    blocked: false,
  };
  return {
    key,
    with: { type: "user", flags, deleted: false, peerN: 0 },
    last: null,
    lastMid: 0,
    chg: 0,
    ownPos: 0,
    readMid: { pc: 0, mobile: 0 },
    unread: { pc: 0, mobile: 0 },
    messages: new Map(),
    fetched: { mid: 0, chg: 0, ownPos: 0 },
    knownTo: 0,
  };
}

/** A group that the user has just joined. What was before is not unread; what of it can be seen has to be fetched. */
export function joinedChat(
  key: ChatKey,
  group: WithGroup,
  lastMid: number,
): Chat {
  const readMid = { pc: lastMid, mobile: lastMid };
  return { ...newChat(key), with: group, lastMid, readMid };
}

/** What a device has to fetch of a chat, so that it has everything: messages and changes above these; `null` where everything is here. */
export function missing(chat: Chat): Fetched | null {
  const { mid, chg, ownPos } = chat.fetched;
  const isHere =
    mid >= chat.lastMid && chg >= chat.chg && ownPos >= chat.ownPos;
  return isHere ? null : { mid, chg, ownPos };
}

/** What is known of it reflects the event there. */
export function knows(chat: Chat, at: string): void {
  chat.knownTo = Math.max(chat.knownTo, parsePosition(at).offset + 1);
}

/** A conversation as a sync returned it. */
export function takeSyncedUser(chat: Chat, row: SyncedConversation): void {
  const { favourite, pinned, muted, blocked } = row;
  const flags = { favourite, pinned, muted, blocked };
  const { peer_n: peerN } = row;
  chat.with = { type: "user", flags, deleted: row.deleted ?? false, peerN };
  if (typeof row.at === "string") knows(chat, row.at);
  chat.last = row.last ?? null;
  chat.lastMid = row.last_mid;
  chat.chg = row.chg;
  chat.ownPos = row.own_pos ?? 0;
  chat.readMid = { ...row.read_mid };
  const { pc, mobile } = row.unread;
  chat.unread = { pc: pc ?? null, mobile: mobile ?? null };
  showNewest(chat);
}

/** A group as a sync returned it. */
export function takeSyncedGroup(chat: Chat, row: ListedGroup): void {
  const { name, role, muted, dissolved, member_count: memberCount } = row;
  const { whole_history: wholeHistory, join_mid: joinMid } = row;
  setGroup(chat, {
    type: "group",
    name,
    role,
    muted,
    dissolved,
    memberCount,
    wholeHistory,
    joinMid,
  });
  knows(chat, row.at);
  chat.last = row.last ?? null;
  chat.lastMid = row.last_mid;
  chat.chg = row.chg;
  chat.ownPos = row.own_pos ?? 0;
  chat.readMid = { ...row.read_mid };
  chat.unread = { ...row.unread };
  showNewest(chat);
}

/** Where nothing is missing the newest message is known; a sync that was behind a page may have had it as it was before. */
export function showNewest(chat: Chat): void {
  if (missing(chat) !== null) return;
  const known = chat.messages.get(chat.lastMid);
  chat.last = known === undefined ? null : preview(known);
}

/** As a list shows a group's newest message, without `client_msg_id` and reactions. */
export function preview(message: Message): Message {
  const { msg } = message;
  const isShort = msg.length <= PREVIEW_CHARS;
  const text = isShort ? msg : Array.from(msg).slice(0, PREVIEW_CHARS).join("");
  const { reactions: _, ...listed } = message;
  return { ...listed, msg: text, client_msg_id: null };
}

/**
 * A group has other settings, or the user joined again. What is not shown any more is dropped, what is shown again has to be fetched; and so has
 * everything of who joined again, since a page may have left out what was before that. What is fetched again may be older than the changes that are known.
 */
export function setGroup(chat: Chat, group: WithGroup): void {
  const before = unseenMid(chat);
  const joinMid = chat.with.type === "group" ? chat.with.joinMid : 0;
  chat.with = group;
  const unseen = unseenMid(chat);
  if (unseen < before || group.joinMid !== joinMid) {
    chat.fetched = { mid: 0, chg: 0, ownPos: 0 };
  }
  for (const mid of chat.messages.keys()) {
    if (mid <= unseen) chat.messages.delete(mid);
  }
  if (chat.last !== null && chat.last.mid <= unseen) chat.last = null;
  countGroup(chat);
}

/** Unread messages of a group are those behind the read position; none once it has ended. */
export function countGroup(chat: Chat): void {
  const hasEnded = chat.with.type === "group" && chat.with.dissolved;
  const { lastMid, readMid } = chat;
  const unread = (read: number) => (hasEnded ? 0 : Math.max(0, lastMid - read));
  chat.unread = { pc: unread(readMid.pc), mobile: unread(readMid.mobile) };
}

/** Whether a page that begins behind this message shows what the device is to show. A query API of an earlier version does not say. */
export function beginsAfter(chat: Chat, mid: number | null | undefined): boolean {
  return typeof mid !== "number" || mid === unseenMid(chat);
}

/** Up to here a group shows nothing. */
function unseenMid(chat: Chat): number {
  return chat.with.type === "group" && !chat.with.wholeHistory
    ? chat.with.joinMid
    : 0;
}
