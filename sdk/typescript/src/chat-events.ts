import {
  countGroup,
  knows,
  preview,
  showNewest,
  type ChangesAfter,
  type Chat,
  type WithUser,
} from "./chat.js";
import {
  DEVICE_CLASSES,
  type ContactChangeEvent,
  type DeviceClass,
  type HeadFrame,
  type MessageChangeEvent,
  type MessageEvent,
} from "./frames.js";
import type { ChangeItem, Message } from "./rest.js";

/** A message. A page or a sync may have had it, since they may be newer than the token. */
export function takeMessage(
  chat: Chat,
  uid: string,
  event: MessageEvent,
): void {
  const { n, ...message } = event;
  const { fetched } = chat;
  const isNewest = message.mid > chat.lastMid;
  // It may have changed since, and a head may stand for the change that follows.
  if (message.mid > fetched.mid) {
    if (fetched.mid + 1 === message.mid) fetched.mid = message.mid;
    chat.messages.set(message.mid, message);
  }
  // A page may have had it, and a sync since then not yet.
  if (isNewest || (message.mid === chat.lastMid && chat.last === null)) {
    const known = chat.messages.get(message.mid);
    chat.lastMid = message.mid;
    chat.last = known === undefined ? null : preview(known);
  }
  const isOwn = message.srcid === uid;
  if (chat.with.type === "user") {
    if (isNewest) chat.with.deleted = false;
    if (typeof n === "number" && !isOwn) countPeer(chat, chat.with, n);
  } else if (isOwn) {
    // Who sends has read everything before.
    takeRead(chat, DEVICE_CLASSES, message.mid, null);
  } else {
    countGroup(chat);
  }
}

function countPeer(chat: Chat, peer: WithUser, n: number): void {
  const more = Math.max(0, n - peer.peerN);
  for (const device of DEVICE_CLASSES) {
    const unread = chat.unread[device];
    if (unread !== null) chat.unread[device] = unread + more;
  }
  peer.peerN += more;
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
    } else {
      countGroup(chat);
    }
  }
}

/** A message changed, or what the user sees, by the event at an offset. */
export function takeChange(
  chat: Chat,
  uid: string,
  offset: number,
  event: MessageChangeEvent,
): void {
  apply(chat, event);
  const { fetched } = chat;
  if (fetched.chg + 1 === event.chg) fetched.chg = event.chg;
  if (event.chg === 0) {
    const last = Math.max(chat.ownPos, offset);
    // The stream has all of them.
    if (fetched.ownPos === chat.ownPos) fetched.ownPos = last;
    chat.ownPos = last;
  }
  chat.chg = Math.max(chat.chg, event.chg);
  showNewest(chat);
  // A note to oneself has no read positions.
  if (event.kind === "clear" && event.by === uid && event.peer !== uid) {
    takeRead(chat, DEVICE_CLASSES, event.mid, event.n);
  }
}

/** Of what was handled already the messages have what came behind it, too. What has no number is final, and may come again. */
function apply(
  chat: Chat,
  change: ChangeItem | MessageChangeEvent,
): void {
  const { mid, kind, ts } = change;
  if (change.chg > 0 && change.chg <= chat.fetched.chg) return;
  switch (kind) {
    case "recall":
      return replace(chat, mid, (old) => {
        const { reactions: _, edited_ts: __, ...others } = old;
        return { ...others, recalled: true, msg: "" };
      });
    case "edit": {
      const msg = change.msg ?? "";
      // A page may have known that it is recalled.
      return replace(chat, mid, (old) =>
        old.recalled ? old : { ...old, msg, edited_ts: ts },
      );
    }
    case "react":
      return replace(chat, mid, (old) =>
        old.recalled ? old : withReactions(old, change),
      );
    case "hide":
    case "delete":
      return drop(chat, (other) => other === mid);
    case "clear":
      return drop(chat, (other) => other <= mid);
  }
}

/** A page has all reactions, unless the message is not shown; an event has one user's. Where there is none, nothing is left of them. */
function withReactions(
  { reactions: known, ...message }: Message,
  change: ChangeItem | MessageChangeEvent,
): Message {
  let reactions = { ...known };
  if (!("by" in change)) reactions = { ...(change.reactions ?? known) };
  else if (change.emoji) reactions[change.by] = change.emoji;
  else delete reactions[change.by];
  return Object.keys(reactions).length > 0 ? { ...message, reactions } : message;
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
export function takeContact(
  chat: Chat,
  uid: string,
  event: ContactChangeEvent,
): void {
  if (chat.with.type !== "user") return;
  const { favourite, pinned, muted, blocked } = event;
  chat.with.flags = { favourite, pinned, muted, blocked };
  if (typeof event.deleted_mid === "number") {
    // Where there is no message there is nothing to leave out.
    if (event.deleted_mid >= Math.max(1, chat.lastMid)) chat.with.deleted = true;
    if (event.peer === uid) return;
    takeRead(chat, DEVICE_CLASSES, event.deleted_mid, event.deleted_n);
  }
}

/** A group has come this far, without a word on what is between. */
export function takeHead(chat: Chat, head: HeadFrame): void {
  knows(chat, head.until);
  if (head.mid > chat.lastMid) {
    chat.lastMid = head.mid;
    chat.last = null;
  }
  chat.chg = Math.max(chat.chg, head.chg);
  showNewest(chat);
  takeRead(chat, DEVICE_CLASSES, head.own_mid, null);
  countGroup(chat);
}

/** Messages behind all that were fetched, in order, up to `next`. Where that is null there are no more. */
export function takeFetched(
  chat: Chat,
  uid: string,
  messages: Message[],
  next: number | null,
): void {
  const { fetched } = chat;
  for (const message of messages) {
    const { mid } = message;
    fetched.mid = Math.max(fetched.mid, mid);
    if (mid > chat.lastMid && chat.with.type === "user") {
      chat.with.deleted = false;
    }
    if (mid >= chat.lastMid) {
      chat.lastMid = mid;
      chat.last = preview(message);
    }
    if (message.srcid === uid && chat.with.type === "group") {
      takeRead(chat, DEVICE_CLASSES, mid, null);
    }
    chat.messages.set(mid, message);
  }
  fetched.mid = Math.max(fetched.mid, next ?? chat.lastMid);
  if (chat.with.type === "group") countGroup(chat);
}

/**
 * The changes behind `after`, up to `next`, or all. From the first of a message that has yet to be fetched on they are not counted, and come again
 * once it is.
 */
export function takeFetchedChanges(
  chat: Chat,
  after: ChangesAfter,
  changes: ChangeItem[],
  next: ChangesAfter | null,
): void {
  const { fetched } = chat;
  const { chg, ownPos } = counted(chat, changes, next);
  for (const change of changes) apply(chat, change);
  // Or one of the pages before was not counted to its end.
  if (after.chg <= fetched.chg) fetched.chg = Math.max(fetched.chg, chg);
  if (after.ownPos <= fetched.ownPos) {
    fetched.ownPos = Math.max(fetched.ownPos, ownPos);
  }
  showNewest(chat);
}

/** Up to where the changes of a page count. */
function counted(
  chat: Chat,
  changes: ChangeItem[],
  next: ChangesAfter | null,
): ChangesAfter {
  const last = {
    chg: Math.max(chat.chg, ...changes.map(({ chg }) => chg)),
    ownPos: Math.max(chat.ownPos, ...changes.map((one) => one.own_pos ?? 0)),
  };
  const to = { ...(next ?? last) };
  for (const early of [...changes].reverse()) {
    if (early.mid <= chat.fetched.mid) continue;
    if (typeof early.own_pos === "number") to.ownPos = early.own_pos - 1;
    else to.chg = early.chg - 1;
  }
  return to;
}
