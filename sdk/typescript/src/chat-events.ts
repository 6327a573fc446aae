import type { Chat, WithUser } from "./chat.js";
import {
  DEVICE_CLASSES,
  type ContactChangeEvent,
  type DeviceClass,
  type MessageChangeEvent,
  type MessageEvent,
} from "./frames.js";
import type { ChangeItem, Message } from "./rest.js";

/** How many characters of the newest message a list shows. */
const PREVIEW_CHARS = 200;

/** A message that is new. */
export function takeMessage(
  chat: Chat,
  uid: string,
  event: MessageEvent,
): void {
  const { n, ...message } = event;
  const { fetched } = chat;
  // A page may have had it, changed since; and a head may stand for the change that follows.
  if (message.mid > fetched.mid) {
    if (fetched.mid + 1 === message.mid) fetched.mid = message.mid;
    chat.messages.set(message.mid, message);
    if (message.mid >= chat.lastMid) chat.last = preview(message);
    chat.lastMid = Math.max(chat.lastMid, message.mid);
  }
  const isOwn = message.srcid === uid;
  if (chat.with.type === "user") {
    chat.with.deleted = false;
    if (typeof n === "number" && !isOwn) countPeer(chat, chat.with, n);
  } else if (isOwn) {
    // Who sends has read everything before.
    takeRead(chat, DEVICE_CLASSES, message.mid, null);
  } else {
    countGroup(chat);
  }
}

function countPeer(chat: Chat, peer: WithUser, n: number): void {
  for (const device of DEVICE_CLASSES) {
    const unread = chat.unread[device];
    if (unread !== null) chat.unread[device] = unread + n - peer.peerN;
  }
  peer.peerN = n;
}

/** Unread messages of a group are those behind the read position. Where a head stands for some, which may be own ones, they cannot be counted. */
function countGroup(chat: Chat): void {
  const isWhole = chat.fetched.mid >= chat.lastMid;
  for (const device of DEVICE_CLASSES) {
    if (isWhole || chat.unread[device] !== null) {
      chat.unread[device] = behind(chat, device);
    }
  }
}

function behind(chat: Chat, device: DeviceClass): number {
  return Math.max(0, chat.lastMid - chat.readMid[device]);
}

/** The user has read up to a message on these classes. */
export function takeRead(
  chat: Chat,
  devices: readonly DeviceClass[],
  mid: number,
  n: number | null | undefined,
): void {
  for (const device of devices) {
    if (mid <= chat.readMid[device]) continue;
    chat.readMid[device] = mid;
    if (chat.with.type === "user") {
      chat.unread[device] =
        typeof n === "number" ? Math.max(0, chat.with.peerN - n) : null;
    } else if (chat.unread[device] !== null || mid >= chat.lastMid) {
      chat.unread[device] = behind(chat, device);
    }
  }
}

/** A message changed, or what the user sees. */
export function takeChange(
  chat: Chat,
  uid: string,
  event: MessageChangeEvent,
): void {
  if (chat.fetched.chg + 1 === event.chg) chat.fetched.chg = event.chg;
  chat.chg = Math.max(chat.chg, event.chg);
  apply(chat, event);
  if (event.kind === "clear" && event.by === uid) {
    takeRead(chat, DEVICE_CLASSES, event.mid, event.n);
  }
}

function apply(
  chat: Chat,
  change: Pick<ChangeItem, "mid" | "kind" | "ts" | "msg">,
): void {
  const { mid, kind, ts } = change;
  switch (kind) {
    case "recall":
      return replace(chat, mid, (old) => ({ ...old, recalled: true, msg: "" }));
    case "edit": {
      const msg = change.msg ?? "";
      return replace(chat, mid, (old) => ({ ...old, msg, edited_ts: ts }));
    }
    case "hide":
    case "delete":
      return drop(chat, (other) => other === mid);
    case "clear":
      return drop(chat, (other) => other <= mid);
  }
}

function replace(
  chat: Chat,
  mid: number,
  change: (old: Message) => Message,
): void {
  const message = chat.messages.get(mid);
  if (message !== undefined) chat.messages.set(mid, change(message));
  if (chat.last?.mid === mid) chat.last = preview(change(chat.last));
}

function drop(chat: Chat, isGone: (mid: number) => boolean): void {
  for (const mid of chat.messages.keys()) {
    if (isGone(mid)) chat.messages.delete(mid);
  }
  if (chat.last !== null && isGone(chat.last.mid)) chat.last = null;
}

/** The user has changed what he says about the contact. */
export function takeContact(chat: Chat, event: ContactChangeEvent): void {
  if (chat.with.type !== "user") return;
  const { favourite, pinned, muted, blocked } = event;
  chat.with.flags = { favourite, pinned, muted, blocked };
  if (typeof event.deleted_mid === "number") {
    chat.with.deleted = true;
    takeRead(chat, DEVICE_CLASSES, event.deleted_mid, event.deleted_n);
  }
}

/** A group has come this far, without a word on what is between. */
export function takeHead(chat: Chat, mid: number, chg: number): void {
  if (mid > chat.lastMid) {
    chat.lastMid = mid;
    chat.last = null;
    chat.unread = { pc: null, mobile: null };
  }
  chat.chg = Math.max(chat.chg, chg);
}

/**
 * Messages behind all that were fetched, in order. `isAll`: there are no more, unless the store of a conversation's messages is behind that of
 * its head.
 */
export function takeFetched(
  chat: Chat,
  uid: string,
  messages: Message[],
  isAll: boolean,
): void {
  for (const message of messages) {
    const { mid } = message;
    chat.fetched.mid = Math.max(chat.fetched.mid, mid);
    if (mid >= chat.lastMid) {
      chat.lastMid = mid;
      chat.last = preview(message);
    }
    if (message.srcid === uid && chat.with.type === "group") {
      takeRead(chat, DEVICE_CLASSES, mid, null);
    }
    chat.messages.set(mid, message);
  }
  const seesNewest = chat.last !== null;
  if (isAll && (!seesNewest || chat.messages.has(chat.lastMid))) {
    chat.fetched.mid = Math.max(chat.fetched.mid, chat.lastMid);
    if (chat.with.type === "group") countGroup(chat);
  }
}

/** Changes behind all that were fetched. Those of messages that the device does not know of come again once it does. */
export function takeFetchedChanges(
  chat: Chat,
  changes: ChangeItem[],
  isAll: boolean,
): void {
  const { fetched } = chat;
  for (const change of changes) {
    if (change.mid > chat.lastMid) return;
    fetched.chg = Math.max(fetched.chg, change.chg);
    apply(chat, change);
  }
  if (isAll) fetched.chg = Math.max(fetched.chg, chat.chg);
}

function preview(message: Message): Message {
  if (message.msg.length <= PREVIEW_CHARS) return message;
  return {
    ...message,
    msg: Array.from(message.msg).slice(0, PREVIEW_CHARS).join(""),
  };
}
