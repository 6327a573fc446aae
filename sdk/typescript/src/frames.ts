import type { Position } from "./token.js";

/** A class of devices; a user has a read position on each. */
export type DeviceClass = "pc" | "mobile";
/** All classes. */
export const DEVICE_CLASSES: readonly DeviceClass[] = ["pc", "mobile"];
/** A value for each class. */
export type PerDevice<T> = Record<DeviceClass, T>;

/** What a user has set for a contact. */
export interface Flags {
  /** Marked as a favourite. */
  favourite: boolean;
  /** Shown at the top of the user's list. */
  pinned: boolean;
  /** No notifications; unread messages count all the same. */
  muted: boolean;
  /** The contact cannot send to the user. */
  blocked: boolean;
}

/** A message, in an event. */
export interface MessageEvent {
  /** Its number in the conversation. */
  mid: number;
  /** Its number among those of the sender; absent in a group. */
  n?: number | null;
  srcid: string;
  /** The receiver; absent in a group. */
  destid?: string | null;
  gid?: string | null;
  msg: string;
  /** When it was sequenced: RFC 3339, UTC. */
  ts: string;
  client_msg_id: string;
}

/** A read position of the user that moved up. */
export interface ReadPositionEvent {
  peer?: string | null;
  gid?: string | null;
  device: DeviceClass;
  /** The newest message read. */
  mid: number;
  /** How many messages the peer had sent up to there; absent where that is not known, and in a group. */
  n?: number | null;
}

/** A change of a message, or of what the user sees. */
export interface MessageChangeEvent {
  by: string;
  /** The other user of the conversation, seen from `by`; absent in a group. */
  peer?: string | null;
  gid?: string | null;
  /** The message; of a clear the newest that is cleared. */
  mid: number;
  /** `recall`, `edit`, `delete`, `hide`, `clear`, or one of a later version. */
  kind: string;
  /** Its number among the changes of the conversation. */
  chg: number;
  ts: string;
  /** The new text of an edit. */
  msg?: string | null;
  /** Of a clear: how many messages the peer had sent up to there; absent where that is not known, and in a group. */
  n?: number | null;
}

/** A user whom a change of a group concerns, from there on. */
export interface ChangedMember {
  uid: string;
  /** `null` for who is no member any more. */
  role: string | null;
  /** Does not send. */
  muted: boolean;
  /** Became a member with this change. */
  joined: boolean;
}

/** A change of a group: its settings from there on, and the members that it concerns. */
export interface GroupChangeEvent {
  gid: string;
  name: string;
  /** Members see what was sent before they joined. */
  whole_history: boolean;
  /** It has ended. */
  dissolved: boolean;
  member_count: number;
  /** Its newest message. */
  last_mid: number;
  members: ChangedMember[];
}

/** What the user says about a contact, all of it. */
export interface ContactChangeEvent extends Flags {
  peer: string;
  /** The newest message, where the contact was deleted. */
  deleted_mid?: number | null;
  /** How many messages the peer had sent up to there. */
  deleted_n?: number | null;
}

/** An event, and where it is in `chat.events`. One of the others is there, unless it is of a later version. */
export interface EventFrame {
  type: "event";
  /** `partition:offset`. */
  at: string;
  message?: MessageEvent;
  read_position?: ReadPositionEvent;
  message_change?: MessageChangeEvent;
  group_change?: GroupChangeEvent;
  contact_change?: ContactChangeEvent;
}

/** How far a group has come, in place of messages and changes. */
export interface HeadFrame {
  type: "head";
  /** Where the first of the events is that are left out. */
  at: string;
  /** Where the last of them is. */
  until: string;
  gid: string;
  /** The newest message among them, or that was changed. */
  mid: number;
  /** The last change among them; 0 where there is none. */
  chg: number;
  /** The newest message of the user's own among them; 0 where there is none. */
  own_mid: number;
}

/** Whether a user is connected to any gateway. */
export interface PresenceFrame {
  type: "presence";
  uid: string;
  /** `null` where that is not known, or not to be told. */
  online: boolean | null;
  /** Of the devices that are. */
  classes?: DeviceClass[];
  /** When a user who is not was seen last: RFC 3339, UTC. */
  last_seen?: string;
}

/** A frame from a gateway. Other types are of a later version, and are passed over. */
export type ServerFrame =
  | EventFrame
  | HeadFrame
  | { type: "welcome"; resumed: boolean }
  | { type: "sync_required"; after_ms: number }
  /** Without a token where there is no stream yet. */
  | { type: "ping"; token?: string }
  | { type: "accepted"; ref: string; at: string }
  | { type: "sent"; ref: string; mid?: number; ts?: string }
  | {
      type: "refused";
      ref: string;
      reason: string;
      /** For people. */
      detail: string;
      retry?: boolean;
    }
  | { type: "error"; detail: string }
  | { type: "typing"; from: string; to?: string; gid?: string }
  | PresenceFrame
  | { type: "replaced" }
  | { type: "reconnect"; after_ms: number };

/** A frame to a gateway. */
export type ClientFrame =
  | {
      type: "hello";
      device: { id: string; class: DeviceClass; name: string };
      since: string | null;
    }
  | { type: "resume"; since: string | null }
  | ({ type: "send"; ref: string; client_msg_id: string; msg: string } & (
      { to: string } | { gid: string }
    ))
  | ({ type: "read"; ref: string; mid: number } & (
      { peer: string } | { gid: string }
    ))
  | ({ type: "typing" } & ({ to: string } | { gid: string }))
  | ({ type: "focus" } & (
      { peer: string } | { gid: string } | Record<never, never>
    ))
  | { type: "pong" };

/** Reads `partition:offset`. */
export function parsePosition(at: string): Position {
  const match = /^(\d{1,2}):(\d{1,16})$/.exec(at);
  if (match === null) throw new RangeError(`at is no position: ${at}`);
  return { partition: Number(match[1]), offset: Number(match[2]) };
}
