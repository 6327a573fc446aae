import type { Gateway } from "./generated.js";
import type { Rates } from "./pace.js";
import type { Position } from "./token.js";

type Schemas = Gateway.components["schemas"];
type FrameFrom<Side extends string> = Schemas[Extract<
  keyof Schemas,
  `${Side}.${string}`
>];

/** A class of devices; a user has a read position on each. */
export type DeviceClass = Schemas["DeviceClass"];
/** All classes. */
export const DEVICE_CLASSES: readonly DeviceClass[] = ["pc", "mobile"];
/** A value for each class. */
export type PerDevice<T> = Record<DeviceClass, T>;

/** A message, in an event. */
export type MessageEvent = Schemas["MessageBody"];
/** A change of a message, or of what the user sees. */
export type MessageChangeEvent = Schemas["ChangeBody"];
/** A change of a group: its settings from there on, and the members that it concerns. */
export type GroupChangeEvent = Schemas["GroupChangeBody"];
/** What the user says about a contact, all of it. */
export type ContactChangeEvent = Schemas["ContactBody"];
/** What a user has set for a contact. */
export type Flags = Pick<
  ContactChangeEvent,
  "favourite" | "pinned" | "muted" | "blocked"
>;

type OneEvent = Schemas["gateway.event"];
type AllOf<One> = (One extends unknown ? (one: One) => void : never) extends (
  all: infer All,
) => void
  ? All
  : never;
/** An event, and where it is in `chat.events`. One of the others is there, unless it is of a later version. */
export type EventFrame = Pick<OneEvent, "type" | "at"> &
  Partial<Omit<AllOf<OneEvent>, "type" | "at">>;
/** How far a group has come, in place of messages and changes. */
export type HeadFrame = Schemas["gateway.head"];
/** How often the gateway pings at least; absent of an earlier version. */
interface Pinged {
  ping_seconds?: number;
}
/** The stream begins; what may be written on it is absent of an earlier version. */
type WelcomeFrame = Pick<Schemas["gateway.welcome"], "type" | "resumed" | "token"> &
  Pinged &
  Rates;
/** The device has to sync first. */
type SyncRequiredFrame = Pick<
  Schemas["gateway.sync_required"],
  "type" | "after_ms" | "token"
> &
  Pinged;
/** A frame from a gateway. Other types are of a later version, and are passed over. */
export type ServerFrame =
  | Exclude<
      FrameFrom<"gateway">,
      OneEvent | { type: "welcome" | "sync_required" }
    >
  | WelcomeFrame
  | SyncRequiredFrame
  | EventFrame;
/** A frame to a gateway. */
export type ClientFrame = FrameFrom<"device">;

/** Reads `partition:offset`. */
export function parsePosition(at: string): Position {
  const match = /^(\d{1,2}):(\d{1,16})$/.exec(at);
  if (match === null) throw new RangeError(`at is no position: ${at}`);
  return { partition: Number(match[1]), offset: Number(match[2]) };
}
