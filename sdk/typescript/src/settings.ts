import type { DeviceClass } from "./frames.js";
import type { DeviceStorage } from "./storage.js";

/** Which device it is, and where its services are. */
export interface DeviceSettings {
  /** Whose device it is. */
  uid: string;
  /** The device: an id of its own, and what the user calls it. */
  device: { id: string; class: DeviceClass; name?: string };
  /** `ws://127.0.0.1:7308`, in the order in which they are tried. */
  gateways: readonly string[];
  /** The query API: `http://127.0.0.1:7302`. */
  query: string;
  /** The token to authenticate with, asked for before each connection and call; without one the stack is an open one. */
  token?: () => string | Promise<string>;
  /** Where it keeps what it knows and what it has yet to send; where absent, that ends with the device. */
  storage?: DeviceStorage;
  /** The longest text of a message in bytes of UTF-8: `ingest.max_msg_bytes`, 16384 where absent. */
  maxMsgBytes?: number;
  /** In place of the platform's own. */
  WebSocket?: typeof WebSocket;
  /** In place of the platform's own. */
  fetch?: typeof fetch;
}

/** Throws a `RangeError` for what a gateway would refuse at each attempt. */
export function checkSettings(settings: DeviceSettings): void {
  const { uid, device, gateways } = settings;
  checkId("uid", uid);
  if (gateways.length === 0) throw new RangeError("there is no gateway");
  if (!/^[\w.-]{1,64}$/.test(device.id)) {
    throw new RangeError(
      "device.id must be 1 to 64 characters, A-Z, a-z, 0-9, '.', '_' and '-'",
    );
  }
  if (Array.from(device.name ?? "").length > 64) {
    throw new RangeError("device.name must be 64 characters at most");
  }
}

/** Throws a `RangeError` for what is no uid or gid. */
export function checkId(name: string, id: string): void {
  const largest = "9223372036854775807";
  const isShorter = id.length < largest.length;
  const fits = isShorter || (id.length === largest.length && id <= largest);
  if (!/^[1-9]\d*$/.test(id) || !fits) {
    throw new RangeError(
      `${name} must be a decimal number from 1 to ${largest}: ${id}`,
    );
  }
}

/** Throws a `RangeError` for a message that would be refused, or whose frame would be. */
export function checkMessage(
  msg: string,
  clientMsgId: string,
  maxMsgBytes: number,
): void {
  const bytes = (text: string): number => new TextEncoder().encode(text).length;
  if (msg === "" || bytes(msg) > maxMsgBytes) {
    throw new RangeError(`a message must have 1 to ${maxMsgBytes} bytes`);
  }
  // Half of a character is no text.
  if (!isWellFormed(msg) || !isWellFormed(clientMsgId)) {
    throw new RangeError("a message must be well-formed Unicode");
  }
  if (clientMsgId === "" || bytes(clientMsgId) > 64) {
    throw new RangeError("a client_msg_id must have 1 to 64 bytes");
  }
}

function isWellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text);
}
