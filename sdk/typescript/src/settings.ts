import { splitKey, type ChatKey } from "./chat-key.js";
import { baseUrl, checkNames, checkToken, type TokenSource } from "./checks.js";
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
  /** The token to authenticate with; a function is called before each connection and call. Without one the stack is an open one. */
  token?: TokenSource;
  /** Where it keeps what it knows and what it has yet to send; where absent, that ends with the device. */
  storage?: DeviceStorage;
  /** The longest text of a message in bytes of UTF-8: `ingest.max_msg_bytes`, 16384 where absent. */
  maxMsgBytes?: number;
  /** In place of the platform's own. */
  WebSocket?: typeof WebSocket;
  /** In place of the platform's own. */
  fetch?: typeof fetch;
}

const LARGEST_ID = "9223372036854775807";

const NAMES: Record<keyof DeviceSettings, true> = {
  uid: true,
  device: true,
  gateways: true,
  query: true,
  token: true,
  storage: true,
  maxMsgBytes: true,
  WebSocket: true,
  fetch: true,
};

/**
 * The settings, with URLs that paths can be added to.
 *
 * @throws TypeError or RangeError, which name the setting, for what would fail at each attempt.
 */
export function checkSettings(settings: DeviceSettings): DeviceSettings {
  checkNames("settings", settings, NAMES);
  const { uid, device, gateways, query, token, maxMsgBytes = 1 } = settings;
  checkId("uid", uid);
  checkDevice(device);
  if (!Array.isArray(gateways) || gateways.length === 0) {
    throw new RangeError('gateways must be like ["ws://127.0.0.1:7308"]');
  }
  if (token !== undefined && typeof token !== "function") checkToken(token);
  checkStorage(settings.storage);
  if (!Number.isSafeInteger(maxMsgBytes) || maxMsgBytes < 1) {
    throw new RangeError("maxMsgBytes must be a whole number from 1 on");
  }
  for (const name of ["WebSocket", "fetch"] as const) {
    const given = settings[name];
    if (given !== undefined && typeof given !== "function") {
      throw new TypeError(`${name} must be as the platform's own`);
    }
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

function checkStorage(storage: DeviceStorage | undefined): void {
  if (storage === undefined) return;
  for (const method of ["load", "save"] as const) {
    if (typeof storage?.[method] !== "function") {
      throw new TypeError(
        `storage must have the methods load and save, as new MemoryStorage() has; ${method} is none`,
      );
    }
  }
}

function checkDevice(device: DeviceSettings["device"]): void {
  checkNames("device", device, { id: true, class: true, name: true });
  if (!DEVICE_CLASSES.includes(device.class)) {
    throw new RangeError(
      `device.class must be ${DEVICE_CLASSES.join(" or ")}, not ${device.class}`,
    );
  }
  checkText("device.id", device.id);
  if (!/^[\w.-]{1,64}$/.test(device.id)) {
    throw new RangeError(
      `device.id must be 1 to 64 characters, A-Z, a-z, 0-9, '.', '_' and '-', not ${device.id}`,
    );
  }
  const { name = "" } = device;
  checkText("device.name", name);
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

/** Throws a `TypeError` or `RangeError` for what is no uid or gid. */
export function checkId(name: string, id: string): void {
  checkText(name, id);
  if (!isUid(id)) {
    throw new RangeError(
      `${name} must be a decimal number from 1 to ${LARGEST_ID}, not ${id}`,
    );
  }
}

/** Whether a text is the number of a user; those of groups are as those. */
export function isUid(text: string): boolean {
  const more = text.length - LARGEST_ID.length;
  const fits = more < 0 || (more === 0 && text <= LARGEST_ID);
  return /^[1-9]\d*$/.test(text) && fits;
}

/** Throws a `RangeError` for what is no number of a message. */
export function checkMid(mid: number): void {
  if (!Number.isSafeInteger(mid) || mid < 1) {
    throw new RangeError(`mid must be a whole number from 1 on, not ${mid}`);
  }
}

function checkText(name: string, text: unknown): void {
  if (typeof text !== "string") {
    const given = text === undefined ? "absent" : `a ${typeof text}`;
    throw new TypeError(`${name} must be a string, and is ${given}`);
  }
}

/** Throws a `TypeError` or `RangeError` for a message that would be refused, or whose frame would be. */
export function checkMessage(
  msg: string,
  clientMsgId: string,
  maxMsgBytes: number,
): void {
  checkText("msg", msg);
  checkText("clientMsgId", clientMsgId);
  const bytes = (text: string): number => new TextEncoder().encode(text).length;
  if (msg === "" || bytes(msg) > maxMsgBytes) {
    throw new RangeError(`a message must have 1 to ${maxMsgBytes} bytes`);
  }
  if (msg.includes("\0")) {
    throw new RangeError("a message must be without NUL");
  }
  // Half of a character is no text.
  if (!isWellFormed(msg) || !isWellFormed(clientMsgId)) {
    throw new RangeError("a message must be well-formed Unicode");
  }
  const isId = clientMsgId !== "" && !/\p{Cc}/u.test(clientMsgId);
  if (!isId || bytes(clientMsgId) > 64) {
    throw new RangeError(
      "a client_msg_id must have 1 to 64 bytes, without control characters",
    );
  }
}

function isWellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text);
}
