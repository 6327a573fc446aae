import { splitKey, type ChatKey } from "./chat.js";
import { DEVICE_CLASSES, type DeviceClass } from "./frames.js";
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

/**
 * The settings, with URLs that paths can be added to.
 *
 * @throws RangeError for what would fail at each attempt.
 */
export function checkSettings(settings: DeviceSettings): DeviceSettings {
  const { uid, device, gateways, query } = settings;
  checkId("uid", uid);
  checkDevice(device);
  if (!Array.isArray(gateways) || gateways.length === 0) {
    throw new RangeError('gateways must be like ["ws://127.0.0.1:7308"]');
  }
  if ((settings.WebSocket ?? globalThis.WebSocket) === undefined) {
    throw new RangeError(
      "there is no WebSocket: Node has one from version 22 on; for others give settings.WebSocket",
    );
  }
  return {
    ...settings,
    gateways: gateways.map((url) => baseUrl("gateways", "ws", url)),
    query: baseUrl("query", "http", query),
  };
}

/**
 * A URL without a slash at its end.
 *
 * @throws RangeError for what is no URL of this scheme, or its secure one, that a path can be added to.
 */
export function baseUrl(
  name: string,
  scheme: "http" | "ws",
  text: string,
): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  const isBase =
    url !== null &&
    [`${scheme}:`, `${scheme}s:`].includes(url.protocol) &&
    url.username + url.password + url.search + url.hash === "";
  if (!isBase) {
    throw new RangeError(
      `${name} must be like ${scheme}://127.0.0.1:${scheme === "ws" ? 7308 : 7302}, not ${text}`,
    );
  }
  return (url.origin + url.pathname).replace(/\/+$/, "");
}

function checkDevice(device: DeviceSettings["device"] | undefined): void {
  if (!DEVICE_CLASSES.includes(device?.class as DeviceClass)) {
    throw new RangeError(
      `device.class must be ${DEVICE_CLASSES.join(" or ")}, not ${device?.class}`,
    );
  }
  if (!/^[\w.-]{1,64}$/.test(device?.id ?? "")) {
    throw new RangeError(
      "device.id must be 1 to 64 characters, A-Z, a-z, 0-9, '.', '_' and '-'",
    );
  }
  const name = device?.name ?? "";
  if (Array.from(name).length > 64 || !isWellFormed(name)) {
    throw new RangeError(
      "device.name must be 64 characters at most, well-formed Unicode",
    );
  }
}

/** Throws a `RangeError` for what is no chat. */
export function checkChat(chat: ChatKey): void {
  const [kind, id] = splitKey(chat);
  checkId(kind === "user" ? "uid" : "gid", id);
}

/** Throws a `RangeError` for what is no uid, gid or mid. */
export function checkId(name: string, id: string): void {
  if (typeof id !== "string") {
    throw new RangeError(`${name} must be a string, not a ${typeof id}`);
  }
  const largest = "9223372036854775807";
  const isShorter = id.length < largest.length;
  const fits = isShorter || (id.length === largest.length && id <= largest);
  if (!/^[1-9]\d*$/.test(id) || !fits) {
    throw new RangeError(
      `${name} must be a decimal number from 1 to ${largest}, not ${id}`,
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
