// Written by `npm run build` in gateway/page.

// src/address.ts
var PLACES = 2;
function devicesOf(hash) {
  const parts = hash.slice(1).split("+").filter(Boolean);
  const users = [];
  const wrong = [];
  for (const part of parts) {
    const [, uid, cls] = /^([1-9]\d*)\/(pc|mobile)$/.exec(part) ?? [];
    if (uid === void 0) wrong.push(part);
    else users.push({ uid, cls: cls === "mobile" ? cls : "pc" });
  }
  const problem = [
    ...wrong.map((part) => `“${part}” in the address is no device.`),
    ...wrong.length > 0 ? ["A device is a user's number and pc or mobile, as in #1000/pc."] : [],
    ...users.slice(PLACES).map(({ uid, cls }) => `${uid}/${cls} is left out.`),
    ...users.length > PLACES ? ["The page has two devices."] : []
  ].join(" ");
  return { users: users.slice(0, PLACES), problem };
}
function addressOf(users) {
  const parts = users.map(({ uid, cls }) => `${uid}/${cls}`);
  return parts.length === 0 ? "/" : `/#${parts.join("+")}`;
}

// src/dom.ts
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}
function button(text, attributes, onClick) {
  const made = element("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", onClick);
  return made;
}
function field(label, attributes) {
  const input = element("input", { autocomplete: "off", ...attributes });
  return { row: element("label", {}, label, input), input };
}
function uidField(label) {
  return field(label, {
    inputmode: "numeric",
    pattern: "[1-9][0-9]*",
    title: "The number of a user: digits only, from 1 on",
    required: true
  });
}
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
var TURNING = /[\u202a-\u202e\u2066-\u2069]/g;
function theirs(words) {
  return element("bdi", {}, words.replace(TURNING, ""));
}
function setLine(node, ...parts) {
  const text = (part) => typeof part === "string" ? part : part.textContent ?? "";
  if (node.textContent === parts.map(text).join("")) return;
  node.replaceChildren(...parts);
}
var KeyedList = class {
  constructor(parent, keyOf2, make) {
    this.parent = parent;
    this.keyOf = keyOf2;
    this.make = make;
  }
  #rows = /* @__PURE__ */ new Map();
  update(items) {
    const keys = new Set(items.map(this.keyOf));
    for (const [key, row] of this.#rows) {
      if (keys.has(key)) continue;
      row.node.remove();
      this.#rows.delete(key);
    }
    let before = this.parent.firstElementChild;
    for (const item of items) {
      const row = this.#row(item);
      row.update(item);
      if (row.node === before) before = before.nextElementSibling;
      else this.parent.insertBefore(row.node, before);
    }
  }
  #row(item) {
    const key = this.keyOf(item);
    const row = this.#rows.get(key) ?? this.make(item);
    this.#rows.set(key, row);
    return row;
  }
};

// ../../sdk/typescript/dist/frames.js
var DEVICE_CLASSES = ["pc", "mobile"];
function parsePosition(at) {
  const match = /^(\d{1,2}):(\d{1,16})$/.exec(at);
  if (match === null)
    throw new RangeError(`at is no position: ${at}`);
  return { partition: Number(match[1]), offset: Number(match[2]) };
}

// ../../sdk/typescript/dist/chat.js
var PREVIEW_CHARS = 200;
function newChat(key) {
  const flags = {
    favourite: false,
    pinned: false,
    muted: false,
    blocked: false
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
    messages: /* @__PURE__ */ new Map(),
    fetched: { mid: 0, chg: 0, ownPos: 0 },
    knownTo: 0
  };
}
function joinedChat(key, group, lastMid) {
  const readMid = { pc: lastMid, mobile: lastMid };
  return { ...newChat(key), with: group, lastMid, readMid };
}
function missing(chat) {
  const { mid, chg, ownPos } = chat.fetched;
  const isHere = mid >= chat.lastMid && chg >= chat.chg && ownPos >= chat.ownPos;
  return isHere ? null : { mid, chg, ownPos };
}
function knows(chat, at) {
  chat.knownTo = Math.max(chat.knownTo, parsePosition(at).offset + 1);
}
function takeSyncedUser(chat, row) {
  const { favourite, pinned, muted, blocked } = row;
  const flags = { favourite, pinned, muted, blocked };
  const { peer_n: peerN } = row;
  chat.with = { type: "user", flags, deleted: row.deleted ?? false, peerN };
  if (typeof row.at === "string")
    knows(chat, row.at);
  chat.last = row.last ?? null;
  chat.lastMid = row.last_mid;
  chat.chg = row.chg;
  chat.ownPos = row.own_pos ?? 0;
  chat.readMid = { ...row.read_mid };
  const { pc, mobile } = row.unread;
  chat.unread = { pc: pc ?? null, mobile: mobile ?? null };
  showNewest(chat);
}
function takeSyncedGroup(chat, row) {
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
    joinMid
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
function showNewest(chat) {
  if (missing(chat) !== null)
    return;
  const known = chat.messages.get(chat.lastMid);
  chat.last = known === void 0 ? null : preview(known);
}
function preview(message) {
  const { msg } = message;
  const isShort = msg.length <= PREVIEW_CHARS;
  const text = isShort ? msg : Array.from(msg).slice(0, PREVIEW_CHARS).join("");
  const { reactions: _, ...listed } = message;
  return { ...listed, msg: text, client_msg_id: null };
}
function setGroup(chat, group) {
  const before = unseenMid(chat);
  const joinMid = chat.with.type === "group" ? chat.with.joinMid : 0;
  chat.with = group;
  const unseen = unseenMid(chat);
  if (unseen < before || group.joinMid !== joinMid) {
    chat.fetched = { mid: 0, chg: 0, ownPos: 0 };
  }
  for (const mid of chat.messages.keys()) {
    if (mid <= unseen)
      chat.messages.delete(mid);
  }
  if (chat.last !== null && chat.last.mid <= unseen)
    chat.last = null;
  countGroup(chat);
}
function countGroup(chat) {
  const hasEnded = chat.with.type === "group" && chat.with.dissolved;
  const { lastMid, readMid } = chat;
  const unread = (read) => hasEnded ? 0 : Math.max(0, lastMid - read);
  chat.unread = { pc: unread(readMid.pc), mobile: unread(readMid.mobile) };
}
function beginsAfter(chat, mid) {
  return typeof mid !== "number" || mid === unseenMid(chat);
}
function unseenMid(chat) {
  return chat.with.type === "group" && !chat.with.wholeHistory ? chat.with.joinMid : 0;
}

// ../../sdk/typescript/dist/chat-key.js
function splitKey(key) {
  const [, kind, id] = /^(user|group):([1-9]\d*)$/.exec(key) ?? [];
  if (kind !== "user" && kind !== "group" || id === void 0) {
    throw new RangeError(`a chat is user:<uid> or group:<gid>, not ${key}`);
  }
  return [kind, id];
}

// ../../sdk/typescript/dist/token.js
var PARTITIONS = 64;
var VERSION = 1;
var HEADER_BYTES = 6;
var PAGE_BYTES = 18;
var TokenError = class extends Error {
  name = "TokenError";
};
var SyncToken = class _SyncToken {
  epoch;
  next;
  page;
  constructor(epoch, next, page) {
    this.epoch = epoch;
    this.next = next;
    this.page = page;
  }
  /** A token with these entries. */
  static of(epoch, next) {
    const entries = Array.from({ length: PARTITIONS }, (_, i) => next(i));
    return new _SyncToken(epoch, entries, new Uint8Array());
  }
  /**
   * Reads a token.
   *
   * @throws {@link TokenError} for what is none.
   */
  static parse(text) {
    const bytes = fromBase64Url(text);
    const [version, ...header] = bytes.subarray(0, HEADER_BYTES);
    const width = header.pop();
    if (version !== VERSION || width === void 0 || width < 1 || width > 8) {
      throw new TokenError("no token of a version that is known here");
    }
    const end = HEADER_BYTES + width * PARTITIONS;
    if (bytes.length !== end && bytes.length !== end + PAGE_BYTES) {
      throw new TokenError("a token of the wrong length");
    }
    const offsets = bytes.subarray(HEADER_BYTES);
    const next = Array.from({ length: PARTITIONS }, (_, i) => integer(offsets.subarray(i * width, (i + 1) * width)));
    return new _SyncToken(integer(header), next, bytes.slice(end));
  }
  /** The offset of the first event of a partition that the device may not know. */
  get(partition) {
    const next = this.next[partition];
    if (next === void 0)
      throw new RangeError(`no partition: ${partition}`);
    return next;
  }
  /** Whether the device knows the event there, if it is one of its user. */
  covers(at) {
    return at.offset < this.get(at.partition);
  }
  /** Everything of a partition below `next` is known. A token never goes back. */
  advance(partition, next) {
    this.next[partition] = Math.max(this.get(partition), next);
  }
  /** Whether it is of the same epoch as another one, and covers what that one does. */
  reaches(other) {
    const isBelow = other.next.some((next, partition) => this.get(partition) < next);
    return this.epoch === other.epoch && !isBelow;
  }
  /** Everything below another token is known, too. */
  raise(other) {
    other.next.forEach((next, partition) => this.advance(partition, next));
  }
  /** As services read it. */
  toString() {
    const largest = Math.max(...this.next);
    let width = 1;
    while (largest >= 256 ** width)
      width += 1;
    const entries = this.next.flatMap((next) => bigEndian(next, width));
    const header = [VERSION, ...bigEndian(this.epoch, 4), width];
    return toBase64Url([...header, ...entries, ...this.page]);
  }
};
function integer(bytes) {
  let value = 0;
  for (const byte of bytes)
    value = value * 256 + byte;
  if (!Number.isSafeInteger(value)) {
    throw new TokenError("a token with an offset above 2^53");
  }
  return value;
}
function bigEndian(value, width) {
  const bytes = Array.from({ length: width });
  for (let i = width - 1; i >= 0; i -= 1) {
    bytes[i] = value % 256;
    value = Math.floor(value / 256);
  }
  return bytes;
}
function fromBase64Url(text) {
  if (!/^[\w-]*$/.test(text) || text.length % 4 === 1) {
    throw new TokenError("a token that is no base64url");
  }
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (char) => char.charCodeAt(0));
}
function toBase64Url(bytes) {
  const text = btoa(String.fromCharCode(...bytes));
  return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

// ../../sdk/typescript/dist/connection.js
var SUBPROTOCOL = "tidemark.v1.json";
var HANDSHAKE_MS = 1e4;
var ENCODED = "base64url.";
var PING_SECONDS = 25;
var LONGEST_MS = 2 ** 31 - 1;
var MAX_WAITING = 1e6;
var ConnectionEnded = class extends Error {
  code;
  wasOpen;
  name = "ConnectionEnded";
  constructor(message, code, wasOpen) {
    super(message);
    this.code = code;
    this.wasOpen = wasOpen;
  }
  /** Whether the device is to come back with its token. */
  get comesBack() {
    return this.code < 4100 || this.code > 4199;
  }
};
function subprotocolOf(token) {
  const isPlain = /^[\w.~+-]+$/.test(token) && !token.startsWith(ENCODED);
  if (isPlain)
    return `bearer.${token}`;
  const bytes = Array.from(token, (char) => char.charCodeAt(0));
  return `bearer.${ENCODED}${toBase64Url(bytes)}`;
}
function silenceMs(pingSeconds = PING_SECONDS) {
  return Math.min((2 * pingSeconds + 10) * 1e3, LONGEST_MS);
}
var Connection = class {
  use;
  #socket;
  #frames = [];
  /** How long the frames are that came since none waited. */
  #waiting = 0;
  #ended = null;
  #wake = null;
  #wasOpen = false;
  #silenceMs = silenceMs();
  #timer;
  /** Begins the handshake; `hello` goes out after it. */
  constructor(Socket, url, token, use) {
    this.use = use;
    const bearer = token === void 0 ? [] : [subprotocolOf(token)];
    this.#socket = new Socket(url, [SUBPROTOCOL, ...bearer]);
    this.#expect(HANDSHAKE_MS, `${url}: no handshake in time`);
    this.#socket.onopen = () => {
      this.#wasOpen = true;
      this.#expect(this.#silenceMs, "the gateway is silent");
      this.write(use.hello());
    };
    this.#socket.onmessage = ({ data }) => this.#receive(String(data));
    this.#socket.onerror = () => {
      if (!this.#wasOpen)
        this.#end(`${url}: the handshake fails`, 0);
    };
    this.#socket.onclose = ({ code, reason }) => {
      const ownCode = code >= 4e3 && code < 5e3 ? code : 0;
      this.#end(reason || `the connection is gone (${code})`, ownCode);
    };
  }
  /** Resolves once a frame waits. Throws {@link ConnectionEnded} behind the last. */
  async arrival() {
    while (this.#frames.length === 0) {
      if (this.#ended !== null)
        throw this.#ended;
      await new Promise((resolve) => this.#wake = resolve);
    }
  }
  /** The next frame, if one waits. */
  take() {
    const frame = this.#frames.shift();
    if (this.#frames.length === 0)
      this.#waiting = 0;
    return frame;
  }
  /** Whether a ping waits. */
  get hasPing() {
    return this.#frames.some((frame) => frame.type === "ping");
  }
  /** What cannot be written is lost with the connection, whose end shows where it is read. */
  write(frame) {
    if (this.#ended !== null || this.#socket.readyState !== 1)
      return;
    const text = JSON.stringify(frame);
    this.use.pace.spend(bytesOf(text));
    this.#socket.send(text);
  }
  /** Ends it, without waiting for the other side. */
  close(reason = "closed here") {
    this.#frames.length = 0;
    this.#end(reason, 0);
  }
  #receive(text) {
    const frame = parse(text);
    if (frame === null)
      return this.#end(`no frame: ${text.slice(0, 80)}`, 0);
    if (frame.type === "welcome" || frame.type === "sync_required") {
      this.#silenceMs = silenceMs(frame.ping_seconds);
    }
    this.#expect(this.#silenceMs, "the gateway is silent");
    if (frame.type === "ping" && frame.token === void 0) {
      return this.write({ type: "pong" });
    }
    this.#frames.push(frame);
    this.#waiting += text.length;
    if (this.#waiting > MAX_WAITING)
      return this.#end("too much waits", 0);
    this.#wake?.();
    if (frame.type === "ping")
      this.use.onPing();
  }
  #expect(ms, otherwise) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#end(otherwise, 0), ms);
  }
  #end(reason, code) {
    if (this.#ended !== null)
      return;
    this.#ended = new ConnectionEnded(reason, code, this.#wasOpen);
    clearTimeout(this.#timer);
    this.#socket.onopen = null;
    this.#socket.onmessage = null;
    this.#socket.onerror = null;
    this.#socket.onclose = null;
    this.#socket.close();
    this.#wake?.();
  }
};
function bytesOf(text) {
  return new TextEncoder().encode(text).length;
}
function parse(text) {
  try {
    const frame = JSON.parse(text);
    const isFrame = typeof frame === "object" && frame !== null && "type" in frame;
    return isFrame ? frame : null;
  } catch {
    return null;
  }
}

// ../../sdk/typescript/dist/chat-fetch.js
var ChatFetch = class {
  reader;
  state;
  key;
  /** Who leaves a group and joins it again has another chat, of which everything is missing. */
  #chat = null;
  /** Its messages were fetched up to here. */
  #mid = 0;
  /** Where the next page of changes begins; `null` while messages are fetched. */
  #after = null;
  /** The page that is asked for. It is taken by a call, which says whether there is another. */
  #page = null;
  constructor(reader, state, key) {
    this.reader = reader;
    this.state = state;
    this.key = key;
  }
  /** Something was missing. */
  get hasBegun() {
    return this.#chat !== null;
  }
  /** The chat has changed: a page that was asked for before would undo that. */
  changed() {
    this.#page = null;
  }
  /** Takes a page, unless it is interrupted before: then the page is waited for in the next step. Whether there is another step. */
  async step(interrupted) {
    const chat = this.state.chats.get(this.key);
    if (chat === void 0)
      return false;
    if (chat !== this.#chat || chat.fetched.mid < this.#mid) {
      if (missing(chat) === null)
        return false;
      this.#chat = chat;
      this.#after = null;
    }
    this.#mid = chat.fetched.mid;
    this.#page ??= this.#ask(chat);
    const take = await Promise.race([this.#page, interrupted]);
    if (take === void 0)
      return true;
    this.#page = null;
    return take();
  }
  #ask(chat) {
    const after = this.#after;
    const page = after === null ? this.#messages(chat) : this.#changes(after);
    page.catch(() => void 0);
    return page;
  }
  async #messages(chat) {
    const { state, key } = this;
    const page = await this.reader.messages(state, key, chat.fetched.mid);
    return () => {
      if (state.takeMessages(key, page) !== null)
        return true;
      this.#mid = chat.fetched.mid;
      this.#after = missing(chat);
      return this.#after !== null;
    };
  }
  async #changes(after) {
    const { state, key } = this;
    const page = await this.reader.changes(state, key, after);
    return () => {
      this.#after = state.takeMessageChanges(key, after, page);
      return this.#after !== null;
    };
  }
};

// ../../sdk/typescript/dist/id.js
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = bytes[6] & 15 | 64;
  bytes[8] = bytes[8] & 63 | 128;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0"));
  const ends = [4, 6, 8, 10, 16];
  return ends.map((end, i) => hex.slice(ends[i - 1] ?? 0, end).join("")).join("-");
}

// ../../sdk/typescript/dist/pace.js
var FRAMES_PER_S = 50;
var BYTES_PER_S = 256 * 1024;
var BURST_MS = 5e3;
var Pace = class {
  #frames = new Budget(FRAMES_PER_S);
  #bytes = new Budget(BYTES_PER_S);
  /** As a `welcome` says. */
  set({ frames_per_s, bytes_per_s }) {
    this.#frames.set(frames_per_s);
    this.#bytes.set(bytes_per_s);
  }
  /** Milliseconds until a frame of so many bytes may be written: 0 for now. */
  wait(bytes) {
    return Math.max(this.#frames.wait(1), this.#bytes.wait(bytes));
  }
  /** A frame of so many bytes is written. */
  spend(bytes) {
    this.#frames.spend(1);
    this.#bytes.spend(bytes);
  }
  /** The gateway has said that it was too much: nothing may be written at once. */
  exhaust() {
    this.#frames.exhaust();
    this.#bytes.exhaust();
  }
};
var Budget = class {
  perS;
  /** When the whole burst is available again. */
  #wholeAt = 0;
  constructor(perS) {
    this.perS = perS;
  }
  set(perS) {
    if (typeof perS === "number" && perS > 0)
      this.perS = perS;
  }
  /** What is more than the whole burst waits for all of it. */
  wait(amount) {
    const now = performance.now();
    const whole = Math.max(0, this.#wholeAt - now);
    return Math.min(whole, Math.max(0, whole + this.#costMs(amount) - BURST_MS));
  }
  spend(amount) {
    this.#wholeAt = Math.max(this.#wholeAt, performance.now()) + this.#costMs(amount);
  }
  exhaust() {
    this.#wholeAt = Math.max(this.#wholeAt, performance.now() + BURST_MS);
  }
  #costMs(amount) {
    return amount * 1e3 / this.perS;
  }
};

// ../../sdk/typescript/dist/checks.js
function checkNames(what, given, names) {
  const known = Object.keys(names).join(", ");
  if (typeof given !== "object" || given === null) {
    throw new TypeError(`${what} must be an object with ${known}`);
  }
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(names, name)) {
      throw new TypeError(`there is no ${what}.${name}, but ${known}`);
    }
  }
}
async function askToken(source) {
  if (source === void 0)
    return void 0;
  return checkToken(typeof source === "function" ? await source() : source);
}
function checkToken(token) {
  if (typeof token !== "string" || !/^[\w.~+/-]+=*$/.test(token)) {
    throw new TypeError("token must be a bearer token (A-Z, a-z, 0-9 and -._~+/, then =), or a function that returns one");
  }
  return token;
}
function baseUrl(name, scheme, text) {
  const url = URL.canParse(text) ? new URL(text) : null;
  const isBase = url !== null && [`${scheme}:`, `${scheme}s:`].includes(url.protocol) && url.username + url.password + url.search + url.hash === "";
  if (!isBase) {
    throw new RangeError(`${name} must be like ${scheme}://127.0.0.1:${scheme === "ws" ? 7308 : 7302}, not ${text}`);
  }
  return (url.origin + url.pathname).replace(/\/+$/, "");
}

// ../../sdk/typescript/dist/rest.js
var TIMEOUT_MS = 4e4;
var ServiceError = class extends Error {
  status;
  problem;
  name = "ServiceError";
  constructor(message, status, problem = null, options) {
    super(message, options);
    this.status = status;
    this.problem = problem;
  }
  /** Whether the same call may succeed later. Of a send the outcome may be unknown: it is repeated with the same `client_msg_id`. */
  get isRetryable() {
    return this.status >= 500 || [0, 408, 429].includes(this.status);
  }
};
var Service = class {
  #settings;
  #fetch;
  constructor(settings) {
    const names = { url: true, token: true, fetch: true, signal: true };
    checkNames("settings", settings, names);
    const url = baseUrl("url", "http", settings.url);
    this.#settings = { ...settings, url };
    this.#fetch = settings.fetch ?? fetch.bind(globalThis);
  }
  /** Reads. */
  get(path, parameters, query) {
    return this.#call("GET", path, parameters, query);
  }
  /** Posts. */
  post(path, parameters, body) {
    return this.#call("POST", path, parameters, void 0, body);
  }
  /** Puts. */
  put(path, parameters, body) {
    return this.#call("PUT", path, parameters, void 0, body);
  }
  async #token() {
    try {
      return await askToken(this.#settings.token);
    } catch (cause) {
      throw new ServiceError(`no token: ${cause}`, 0, null, { cause });
    }
  }
  async #call(method, path, parameters, query = {}, body) {
    const url = this.#settings.url + target(path, parameters, query);
    const headers = {};
    const token = await this.#token();
    if (token !== void 0)
      headers["authorization"] = `Bearer ${token}`;
    const init = { method, headers };
    if (body !== void 0) {
      headers["content-type"] = "application/json";
      init.body = JSON.stringify(body);
    }
    const { signal } = this.#settings;
    const timeout = AbortSignal.timeout(TIMEOUT_MS);
    init.signal = signal ? AbortSignal.any([timeout, signal]) : timeout;
    let answer;
    try {
      const response = await this.#fetch(url, init);
      const { ok, status } = response;
      answer = { ok, status, text: await response.text() };
    } catch (cause) {
      throw new ServiceError(`${url} does not answer`, 0, null, { cause });
    }
    const json = parse2(answer.text);
    if (answer.ok && json !== null)
      return json;
    const problem = json;
    const detail = problem?.detail ?? problem?.title ?? "no answer of Tidemark";
    throw new ServiceError(`${url}: ${answer.status}: ${detail}`, answer.status, problem);
  }
};
function target(path, parameters, query) {
  const values = new Map(Object.entries(parameters));
  const filled = path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(values.get(name))));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) {
      if (one !== void 0 && one !== null)
        search.append(name, String(one));
    }
  }
  return search.size === 0 ? filled : `${filled}?${search}`;
}
function parse2(text) {
  try {
    const json = JSON.parse(text);
    return typeof json === "object" ? json : null;
  } catch {
    return null;
  }
}

// ../../sdk/typescript/dist/link.js
var FIRST_PAUSE_MS = 100;
var LONGEST_PAUSE_MS = 1e4;
var ASK_EVERY = 3;
var UNAUTHENTICATED = 401;
var TOO_FAST = 4003;
var Pauses = class {
  #ms = FIRST_PAUSE_MS;
  #streamSince = null;
  /** A stream has begun. That alone is no reason to come back soon: a gateway may welcome every device, and close. */
  streamBegins() {
    this.#streamSince = performance.now();
  }
  /** A connection has ended. The next pause is a short one if there was a stream for as long as the longest pause. */
  connectionEnds() {
    const since = this.#streamSince ?? Infinity;
    if (performance.now() - since >= LONGEST_PAUSE_MS)
      this.reset();
    this.#streamSince = null;
  }
  /** Not all devices of a gateway that ends come back at once. */
  next() {
    const pause = this.#ms * (0.5 + Math.random());
    this.#ms = Math.min(2 * this.#ms, LONGEST_PAUSE_MS);
    return pause;
  }
  /** The next pause is a short one. */
  reset() {
    this.#ms = FIRST_PAUSE_MS;
  }
};
var Link = class {
  settings;
  handler;
  signal;
  #connection = null;
  #gateway = 0;
  #failures = 0;
  #pauses = new Pauses();
  /** Of all connections: a new one is no new budget. */
  #pace = new Pace();
  #afterMs = 0;
  /** The token of the last attempt. */
  #token;
  #onPing = () => void 0;
  /** Ends the pause that is under way. */
  #wake = new AbortController();
  constructor(settings, handler, signal) {
    this.settings = settings;
    this.handler = handler;
    this.signal = signal;
    signal.addEventListener("abort", () => this.#connection?.close());
  }
  /** Runs until it is aborted, or until an error that would come again. */
  async run() {
    while (!this.signal.aborted) {
      const ended = await this.#connect();
      if (this.signal.aborted)
        return;
      this.#pauses.connectionEnds();
      const { code } = ended instanceof ConnectionEnded ? ended : { code: 0 };
      if (code === TOO_FAST)
        this.#pace.exhaust();
      this.handler.disconnected(ended.message);
      const isSilent = ended instanceof ConnectionEnded && !ended.wasOpen;
      this.#failures = isSilent ? this.#failures + 1 : 0;
      if (this.#failures % ASK_EVERY === 1)
        await this.#probe();
      const pause = this.#pauses.next();
      this.#wake = new AbortController();
      const ends = AbortSignal.any([this.signal, this.#wake.signal]);
      await sleep(Math.max(this.#afterMs, pause), ends);
      this.#afterMs = 0;
      this.#gateway += 1;
    }
  }
  /** Ends the pause between two attempts; the pauses after it are short again. */
  connectNow() {
    this.#pauses.reset();
    this.#wake.abort();
  }
  /** The next frame that has come and is not handled yet. */
  take() {
    return this.#connection?.take();
  }
  /** Resolves once a ping is among these: it is to be answered soon. One caller at a time waits for it. */
  pinged() {
    return new Promise((resolve) => {
      this.#onPing = resolve;
      if (this.#connection?.hasPing)
        resolve();
    });
  }
  /** Lost where there is no connection. */
  write(frame) {
    this.#connection?.write(frame);
  }
  /** Writes a frame unless the gateway would find it too much at present; in how many milliseconds it may be written, 0 if it was. */
  tryWrite(frame) {
    const wait = this.#pace.wait(bytesOf(JSON.stringify(frame)));
    if (wait === 0)
      this.write(frame);
    return wait;
  }
  /** A stream has begun, on which so much may be written. */
  welcomed(rates) {
    this.#pauses.streamBegins();
    this.#pace.set(rates);
  }
  /** The device gets on: the next pause is a short one. */
  getsOn() {
    this.#pauses.reset();
  }
  /** Ends the connection; the next one begins in so many milliseconds at the earliest. */
  reconnect(afterMs) {
    this.#afterMs = afterMs;
    this.#connection?.close("the gateway ends");
  }
  async #probe() {
    try {
      await this.handler.probe();
    } catch (error) {
      await this.#reason(error);
    }
  }
  /** A connection, from the handshake to its end. */
  async #connect() {
    const Socket = this.settings.WebSocket ?? WebSocket;
    const use = {
      hello: () => this.handler.hello(),
      onPing: () => this.#onPing(),
      pace: this.#pace
    };
    let connection;
    try {
      this.#token = await askToken(this.settings.token);
      connection = new Connection(Socket, this.#url(), this.#token, use);
    } catch (error) {
      return new ConnectionEnded(`no token: ${String(error)}`, 0, false);
    }
    this.#connection = connection;
    try {
      for (; ; ) {
        await connection.arrival();
        await this.handler.arrived();
      }
    } catch (error) {
      return await this.#reason(error);
    } finally {
      connection.close();
      this.#connection = null;
    }
  }
  /** A service is nobody's device without a uid. */
  #url() {
    const { gateways, uid } = this.settings;
    const gateway = gateways[this.#gateway % gateways.length];
    return `${gateway}/v1/connect?uid=${uid}`;
  }
  /** Throws what the next connection would end with, too. What cannot be read is none of that: another gateway may be of another version. */
  async #reason(error) {
    const ends = error instanceof ConnectionEnded ? !error.comesBack : error instanceof ServiceError && !error.isRetryable;
    const isRefused2 = error instanceof ServiceError && error.status === UNAUTHENTICATED;
    if (ends && !(isRefused2 && await this.#hasAnotherToken()))
      throw error;
    return error instanceof Error ? error : new Error(String(error));
  }
  /** Whether there is another token than the one that was refused, or may be later. */
  async #hasAnotherToken() {
    const { token } = this.settings;
    if (typeof token !== "function")
      return false;
    const next = await askToken(token).catch(() => null);
    return next !== this.#token;
  }
};
function sleep(ms, signal) {
  return new Promise((resolve) => {
    if (signal.aborted)
      return resolve();
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}

// ../../sdk/typescript/dist/outbox.js
var WINDOW = 32;
var SURE_MS = 24 * 60 * 60 * 1e3;
function isRefused(item) {
  return item.kind === "send" && item.refused !== void 0;
}
var Outbox = class {
  #items = /* @__PURE__ */ new Map();
  /** Where in the queue, and whether it is accepted. */
  #written = /* @__PURE__ */ new Map();
  /** These are not on the log: they were not written yet, in no life of the program, or looked for since. */
  #fresh = /* @__PURE__ */ new Set();
  #changed = /* @__PURE__ */ new Set();
  #lastSeq = 0;
  /** With what was stored. */
  constructor(items = []) {
    for (const item of [...items].sort((a, b) => a.seq - b.seq)) {
      this.#items.set(item.seq, item);
      this.#lastSeq = item.seq;
    }
  }
  /** What is not answered yet, oldest first. */
  get unanswered() {
    return [...this.#items.values()].filter((item) => !isRefused(item));
  }
  /** Sends that were refused and not dismissed, oldest first. */
  get refused() {
    return [...this.#items.values()].filter(isRefused);
  }
  /** Puts a message last, to a chat whose newest message is `afterMid`. */
  send(chat, clientMsgId, msg, afterMid) {
    const seq = this.#nextSeq();
    const sentAt = Date.now();
    this.#fresh.add(seq);
    this.#add({ kind: "send", seq, chat, clientMsgId, msg, sentAt, afterMid });
  }
  /** Sends that may be on the log already, oldest first. */
  get repeats() {
    const isSend = (item) => item.kind === "send";
    const sends = this.unanswered.filter(isSend);
    return sends.filter((item) => !this.#fresh.has(item.seq));
  }
  /** Those of them that the log may not know as repeats any more: they are to be looked for, and wait until then. */
  get unsure() {
    return this.repeats.filter((item) => this.#isUnsure(item));
  }
  #isUnsure({ seq, sentAt }) {
    if (this.#fresh.has(seq) || this.#written.has(seq))
      return false;
    const age = Date.now() - (sentAt ?? -Infinity);
    return age < 0 || age >= SURE_MS;
  }
  /** It was looked for, and is not on the log. */
  lookedFor(seq) {
    if (this.#items.has(seq))
      this.#fresh.add(seq);
  }
  /** Puts a read-ack last. Of those of a chat that were not written yet the one with the highest number stands for all. */
  read(chat, mid) {
    let highest = mid;
    for (const item of this.#items.values()) {
      if (item.kind !== "read" || item.chat !== chat || this.#written.has(item.seq))
        continue;
      highest = Math.max(highest, item.mid);
      this.#remove(item.seq);
    }
    this.#add({ kind: "read", seq: this.#nextSeq(), chat, mid: highest });
  }
  #nextSeq() {
    this.#lastSeq += 1;
    return this.#lastSeq;
  }
  #add(item) {
    this.#items.set(item.seq, item);
    this.#changed.add(item.seq);
  }
  #remove(seq) {
    this.#items.delete(seq);
    this.#written.delete(seq);
    this.#fresh.delete(seq);
    this.#changed.add(seq);
  }
  /**
   * Writes what may be written now, in order, up to what is too much at present: `write` says in how many milliseconds it is, 0 if it was written.
   * Returns that.
   */
  write(write) {
    const postingTo = /* @__PURE__ */ new Set();
    for (const [seq, isAccepted] of this.#written) {
      const item = this.#items.get(seq);
      if (item?.kind === "send" && !isAccepted)
        postingTo.add(item.chat);
    }
    for (const item of this.#items.values()) {
      if (this.#written.size >= WINDOW)
        break;
      if (this.#written.has(item.seq) || isRefused(item))
        continue;
      if (item.kind === "send") {
        if (postingTo.has(item.chat))
          continue;
        postingTo.add(item.chat);
        if (this.#isUnsure(item))
          continue;
      }
      const wait = write(frameOf(item));
      if (wait > 0)
        return wait;
      this.#written.set(item.seq, false);
    }
    return 0;
  }
  /** What was answered, by its `ref`: it is done. `null` where it was answered before. */
  answered(ref) {
    const item = this.#items.get(Number(ref)) ?? null;
    if (item !== null)
      this.#remove(item.seq);
    return item;
  }
  /** A send that is refused stays, for the user to see, and a read-ack is done. `null` where it was answered before. */
  refuse(ref, refusal) {
    const item = this.#items.get(Number(ref));
    if (item === void 0 || isRefused(item))
      return null;
    if (item.kind === "read") {
      this.#remove(item.seq);
      return item;
    }
    const refused = { ...item, refused: refusal };
    this.#written.delete(item.seq);
    this.#add(refused);
    return refused;
  }
  /** The user knows that it was refused. */
  dismiss(clientMsgId) {
    for (const item of this.refused) {
      if (item.clientMsgId === clientMsgId)
        this.#remove(item.seq);
    }
  }
  /** A read-ack is done once it is on the log; a send waits for its number, and the next one to its conversation does not. */
  accepted(ref) {
    const seq = Number(ref);
    if (this.#items.get(seq)?.kind === "read")
      this.answered(ref);
    else if (this.#written.has(seq))
      this.#written.set(seq, true);
  }
  /** It is refused for now, and holds back what is behind it in its conversation. */
  hold(ref) {
    const seq = Number(ref);
    if (this.#written.has(seq))
      this.#written.set(seq, false);
  }
  /** It is to be written again. */
  again(ref) {
    this.#written.delete(Number(ref));
  }
  /** Everything is to be written again, on the next connection. */
  disconnected() {
    for (const seq of this.#written.keys())
      this.#fresh.delete(seq);
    this.#written.clear();
  }
  /** What has changed since the last call, by its place; `null` where it is done. */
  drainChanges() {
    const changed = [...this.#changed];
    this.#changed = /* @__PURE__ */ new Set();
    return new Map(changed.map((seq) => [seq, this.#items.get(seq) ?? null]));
  }
  /** Everything that waits or was refused, by its place. */
  places() {
    return this.#items.keys();
  }
  /** These changes were drained, and are not stored. */
  putBack(changes) {
    for (const seq of changes)
      this.#changed.add(seq);
  }
};
function frameOf(item) {
  const [kind, id] = splitKey(item.chat);
  const ref = String(item.seq);
  if (item.kind === "read") {
    const of = kind === "user" ? { peer: id } : { gid: id };
    return { type: "read", ref, mid: item.mid, ...of };
  }
  const { clientMsgId: client_msg_id, msg } = item;
  const to = kind === "user" ? { to: id } : { gid: id };
  return { type: "send", ref, client_msg_id, msg, ...to };
}

// ../../sdk/typescript/dist/chat-events.js
function takeMessage(chat, uid, event) {
  const { n, ...message } = event;
  const { fetched } = chat;
  const isNewest = message.mid > chat.lastMid;
  if (message.mid > fetched.mid) {
    if (fetched.mid + 1 === message.mid)
      fetched.mid = message.mid;
    chat.messages.set(message.mid, message);
  }
  if (isNewest || message.mid === chat.lastMid && chat.last === null) {
    const known = chat.messages.get(message.mid);
    chat.lastMid = message.mid;
    chat.last = known === void 0 ? null : preview(known);
  }
  const isOwn = message.srcid === uid;
  if (chat.with.type === "user") {
    if (isNewest)
      chat.with.deleted = false;
    if (typeof n === "number" && !isOwn)
      countPeer(chat, chat.with, n);
  } else if (isOwn) {
    takeRead(chat, DEVICE_CLASSES, message.mid, null);
  } else {
    countGroup(chat);
  }
}
function countPeer(chat, peer, n) {
  const more = Math.max(0, n - peer.peerN);
  for (const device of DEVICE_CLASSES) {
    const unread = chat.unread[device];
    if (unread !== null)
      chat.unread[device] = unread + more;
  }
  peer.peerN += more;
}
function takeRead(chat, devices, mid, n) {
  for (const device of devices) {
    if (mid <= chat.readMid[device])
      continue;
    chat.readMid[device] = mid;
    if (chat.with.type === "user") {
      chat.unread[device] = typeof n === "number" ? Math.max(0, chat.with.peerN - n) : null;
    } else {
      countGroup(chat);
    }
  }
}
function takeChange(chat, uid, offset, event) {
  apply(chat, event);
  const { fetched } = chat;
  if (fetched.chg + 1 === event.chg)
    fetched.chg = event.chg;
  if (event.chg === 0) {
    const last = Math.max(chat.ownPos, offset);
    if (fetched.ownPos === chat.ownPos)
      fetched.ownPos = last;
    chat.ownPos = last;
  }
  chat.chg = Math.max(chat.chg, event.chg);
  showNewest(chat);
  if (event.kind === "clear" && event.by === uid && event.peer !== uid) {
    takeRead(chat, DEVICE_CLASSES, event.mid, event.n);
  }
}
function apply(chat, change) {
  const { mid, kind, ts } = change;
  if (change.chg > 0 && change.chg <= chat.fetched.chg)
    return;
  switch (kind) {
    case "recall":
      return replace(chat, mid, (old) => {
        const { reactions: _, edited_ts: __, ...others } = old;
        return { ...others, recalled: true, msg: "" };
      });
    case "edit": {
      const msg = change.msg ?? "";
      return replace(chat, mid, (old) => old.recalled ? old : { ...old, msg, edited_ts: ts });
    }
    case "react":
      return replace(chat, mid, (old) => old.recalled ? old : withReactions(old, change));
    case "hide":
    case "delete":
      return drop(chat, (other) => other === mid);
    case "clear":
      return drop(chat, (other) => other <= mid);
  }
}
function withReactions({ reactions: known, ...message }, change) {
  let reactions = { ...known };
  if (!("by" in change))
    reactions = { ...change.reactions ?? known };
  else if (change.emoji)
    reactions[change.by] = change.emoji;
  else
    delete reactions[change.by];
  return Object.keys(reactions).length > 0 ? { ...message, reactions } : message;
}
function replace(chat, mid, change) {
  const message = chat.messages.get(mid);
  if (message !== void 0)
    chat.messages.set(mid, change(message));
  if (chat.last?.mid === mid)
    chat.last = preview(change(chat.last));
}
function drop(chat, isGone) {
  for (const mid of chat.messages.keys()) {
    if (isGone(mid))
      chat.messages.delete(mid);
  }
  if (chat.last !== null && isGone(chat.last.mid))
    chat.last = null;
}
function takeContact(chat, uid, event) {
  if (chat.with.type !== "user")
    return;
  const { favourite, pinned, muted, blocked } = event;
  chat.with.flags = { favourite, pinned, muted, blocked };
  if (typeof event.deleted_mid === "number") {
    if (event.deleted_mid >= Math.max(1, chat.lastMid))
      chat.with.deleted = true;
    if (event.peer === uid)
      return;
    takeRead(chat, DEVICE_CLASSES, event.deleted_mid, event.deleted_n);
  }
}
function takeHead(chat, head) {
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
function takeFetched(chat, uid, messages, next) {
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
  if (chat.with.type === "group")
    countGroup(chat);
}
function takeFetchedChanges(chat, after, changes, next) {
  const { fetched } = chat;
  const { chg, ownPos } = counted(chat, changes, next);
  for (const change of changes)
    apply(chat, change);
  if (after.chg <= fetched.chg)
    fetched.chg = Math.max(fetched.chg, chg);
  if (after.ownPos <= fetched.ownPos) {
    fetched.ownPos = Math.max(fetched.ownPos, ownPos);
  }
  showNewest(chat);
}
function counted(chat, changes, next) {
  const last = {
    chg: Math.max(chat.chg, ...changes.map(({ chg }) => chg)),
    ownPos: Math.max(chat.ownPos, ...changes.map((one) => one.own_pos ?? 0))
  };
  const to = { ...next ?? last };
  for (const early of [...changes].reverse()) {
    if (early.mid <= chat.fetched.mid)
      continue;
    if (typeof early.own_pos === "number")
      to.ownPos = early.own_pos - 1;
    else
      to.chg = early.chg - 1;
  }
  return to;
}

// ../../sdk/typescript/dist/state.js
var DeviceState = class _DeviceState {
  uid;
  #chats = /* @__PURE__ */ new Map();
  #token = null;
  #returned = /* @__PURE__ */ new Set();
  #fullSyncs = 0;
  #profile = null;
  #changed = /* @__PURE__ */ new Set();
  /** Of a device that knows nothing yet. */
  constructor(uid) {
    this.uid = uid;
  }
  /** Of a device that was stored. */
  static of(head, chats) {
    const state = new _DeviceState(head.uid);
    for (const chat of chats) {
      chat.ownPos ??= 0;
      chat.fetched.ownPos ??= 0;
      state.#chats.set(chat.key, chat);
    }
    state.#token = head.token === null ? null : SyncToken.parse(head.token);
    state.#returned = new Set(head.returned);
    state.#fullSyncs = head.fullSyncs;
    state.#profile = head.profile ?? null;
    return state;
  }
  /** `since` of the next sync, of `hello` and of `resume`; `null` before the first sync. */
  get token() {
    return this.#token?.toString() ?? null;
  }
  /** What pages of a chat have to reflect: `after=` of the calls that fetch them. An older one would undo what is known. */
  knownOf(key) {
    const chat = this.#chats.get(key);
    if (this.#token === null || chat === void 0)
      return null;
    const token = SyncToken.parse(this.#token.toString());
    token.advance(partitionOf(this.uid, key), chat.knownTo);
    return token.toString();
  }
  /** All conversations and groups, deleted contacts too. */
  get chats() {
    return this.#chats;
  }
  /** What others see of the user; `null` where that is not known, or the user has set nothing. */
  get profile() {
    return this.#profile;
  }
  /** The number of a message of the user's with this `client_msg_id`, if the device has it. */
  midOf(key, clientMsgId) {
    for (const message of this.#chats.get(key)?.messages.values() ?? []) {
      const { srcid, client_msg_id: id, mid } = message;
      if (srcid === this.uid && id === clientMsgId)
        return mid;
    }
    return null;
  }
  /** How often everything was fetched. */
  get fullSyncs() {
    return this.#fullSyncs;
  }
  /** What has changed since the last call. */
  drainChanges() {
    const { uid, token, profile } = this;
    const returned = [...this.#returned];
    const chats = /* @__PURE__ */ new Map();
    for (const key of this.#changed) {
      chats.set(key, this.#chats.get(key) ?? null);
    }
    this.#changed = /* @__PURE__ */ new Set();
    return {
      head: { uid, token, returned, fullSyncs: this.#fullSyncs, profile },
      chats
    };
  }
  /** These changes were drained, and are not stored. */
  putBack(changes) {
    for (const key of changes)
      this.#changed.add(key);
  }
  /** Takes a page of a sync; whether there is another. */
  takeSync(answer) {
    const next = SyncToken.parse(answer.next);
    if (this.#token !== null && !next.reaches(this.#token)) {
      this.#returned.clear();
      this.#profile = null;
    }
    if (answer.profile)
      this.#takeProfile(answer.profile);
    for (const row of answer.conversations) {
      if (typeof row.peer === "string") {
        const key = `user:${row.peer}`;
        takeSyncedUser(this.#returnedChat(key, answer.full), row);
      }
    }
    for (const row of answer.groups) {
      const key = `group:${row.gid}`;
      takeSyncedGroup(this.#returnedChat(key, answer.full), row);
    }
    for (const gid of answer.left)
      this.#drop(`group:${gid}`);
    if (!answer.more) {
      if (answer.full)
        this.#dropOthers();
      this.#returned = /* @__PURE__ */ new Set();
    }
    this.#token = next;
    return answer.more;
  }
  /** Of a full sync it begins anew: the log may be another one. */
  #returnedChat(key, full) {
    if (full) {
      if (!this.#returned.has(key))
        this.#chats.delete(key);
      this.#returned.add(key);
    }
    return this.#userChat(key);
  }
  #userChat(key) {
    const chat = this.#chats.get(key) ?? newChat(key);
    this.#put(chat);
    return chat;
  }
  #dropOthers() {
    for (const key of this.#chats.keys()) {
      if (!this.#returned.has(key))
        this.#drop(key);
    }
    this.#fullSyncs += 1;
  }
  #drop(key) {
    if (this.#chats.delete(key))
      this.#changed.add(key);
  }
  #put(chat) {
    this.#chats.set(chat.key, chat);
    this.#changed.add(chat.key);
  }
  /** Whether an event is below the token, or there is none yet: then nothing becomes of it. */
  knows({ at }) {
    return this.#token === null || this.#token.covers(parsePosition(at));
  }
  /** Takes an event; the chat that it changes. `null` where it was known already, or changes none. */
  takeEvent(event) {
    if (!this.#movesOn(parsePosition(event.at)))
      return null;
    const { uid } = this;
    const other = (one, two) => one === uid ? two : one;
    if (event.message !== void 0) {
      const { srcid, destid, gid } = event.message;
      const chat = this.#chat(gid, destid && other(srcid, destid));
      if (chat !== null)
        takeMessage(chat, uid, event.message);
      return chat?.key ?? null;
    }
    if (event.message_change !== void 0) {
      const { by, peer, gid } = event.message_change;
      const chat = this.#chat(gid, peer && other(by, peer));
      const { offset } = parsePosition(event.at);
      if (chat !== null)
        takeChange(chat, uid, offset, event.message_change);
      return chat?.key ?? null;
    }
    if (event.read_position !== void 0) {
      const { peer, gid, device, mid, n } = event.read_position;
      const chat = this.#chat(gid, peer);
      if (chat !== null)
        takeRead(chat, [device], mid, n);
      return chat?.key ?? null;
    }
    if (event.contact_change !== void 0) {
      const chat = this.#chat(null, event.contact_change.peer);
      if (chat !== null)
        takeContact(chat, uid, event.contact_change);
      return chat?.key ?? null;
    }
    if (event.profile?.uid === uid) {
      this.#takeProfile({ ...event.profile, at: event.at });
    }
    const change = event.group_change;
    return change === void 0 ? null : this.#takeGroupChange(change);
  }
  /** A sync may have had a later one than the event that comes now. */
  #takeProfile(profile) {
    const { nick, avatar = null, extra = null, at } = profile;
    const known = this.#profile && parsePosition(this.#profile.at).offset;
    if (known !== null && parsePosition(at).offset < known)
      return;
    this.#profile = { nick, avatar, extra, at };
  }
  /** The chat of an event, which changes. A user becomes a chat by anything that happens; a group only by joining it. */
  #chat(gid, peer) {
    if (typeof gid === "string")
      return this.#group(gid);
    return typeof peer === "string" ? this.#userChat(`user:${peer}`) : null;
  }
  #group(gid) {
    const chat = this.#chats.get(`group:${gid}`) ?? null;
    if (chat !== null)
      this.#put(chat);
    return chat;
  }
  #takeGroupChange(event) {
    const key = `group:${event.gid}`;
    const own = event.members.find((member) => member.uid === this.uid);
    const chat = this.#group(event.gid);
    const { name, dissolved, member_count: memberCount } = event;
    const known = chat?.with.type === "group" ? chat.with : null;
    const { role, muted, joined } = own ?? { ...known, joined: false };
    if (role === void 0 || muted === void 0)
      return null;
    if (role === null) {
      this.#drop(key);
      return key;
    }
    const group = {
      type: "group",
      name,
      role,
      muted,
      dissolved,
      memberCount,
      wholeHistory: event.whole_history,
      joinMid: joined || known === null ? event.last_mid : known.joinMid
    };
    if (chat !== null && !joined)
      setGroup(chat, group);
    else
      this.#put(joinedChat(key, group, event.last_mid));
    return key;
  }
  /**
   * Takes how far a group has come; it has to be fetched then. Where the head itself is below the token, since a sync has moved that meanwhile, some
   * of what it stands for may not be; and it says nothing that could go back.
   */
  takeHead(head) {
    this.#movesOn(parsePosition(head.at));
    const chat = this.#group(head.gid);
    if (chat !== null)
      takeHead(chat, head);
    return chat?.key ?? null;
  }
  /** Takes a token of a ping: everything below it was handed over before. */
  takePing(text) {
    if (this.#token === null)
      return;
    this.#token.raise(SyncToken.parse(text));
  }
  /** What is below the token is known (W9), and what is handled moves it (W8). */
  #movesOn(at) {
    if (this.#token === null)
      return false;
    const isNew = !this.#token.covers(at);
    this.#token.advance(at.partition, at.offset + 1);
    return isNew;
  }
  /**
   * Takes a page of the messages of a chat that were missing; above which the next one begins, if there is another. What is of a group that shows
   * another part of its history than the device knows of is not taken: the device will hear of that, and what it lacks stays missing.
   */
  takeMessages(key, page) {
    const next = nextOf(page);
    const chat = this.#chats.get(key);
    if (chat === void 0 || !beginsAfter(chat, page.begins_after_mid)) {
      return null;
    }
    takeFetched(chat, this.uid, page.items, next);
    this.#changed.add(key);
    return next;
  }
  /** Takes a page of the changes of a chat behind these, as with messages; behind which the next one begins, if there is another. */
  takeMessageChanges(key, after, page) {
    const next = nextChangesOf(page);
    const chat = this.#chats.get(key);
    if (chat === void 0 || !beginsAfter(chat, page.begins_after_mid)) {
      return null;
    }
    takeFetchedChanges(chat, after, page.items, next);
    this.#changed.add(key);
    return next;
  }
};
function partitionOf(uid, key) {
  const [kind, id] = splitKey(key);
  const sum = kind === "group" ? BigInt(id) : BigInt(uid) + BigInt(id);
  return Number(sum % BigInt(PARTITIONS));
}
function nextOf(page) {
  return numbersOf(page, /^after_mid=(\d+)$/)?.[0] ?? null;
}
function nextChangesOf(page) {
  const pattern = /^after_chg=(\d+)(?:&after_own_pos=(\d+))?$/;
  const numbers = numbersOf(page, pattern);
  return numbers && { chg: numbers[0] ?? 0, ownPos: numbers[1] ?? 0 };
}
function numbersOf({ next }, pattern) {
  if (typeof next !== "string")
    return null;
  const match = pattern.exec(next);
  if (match === null)
    throw new RangeError(`next is no page: ${next}`);
  return match.slice(1).map((text) => Number(text ?? 0));
}

// ../../sdk/typescript/dist/reader.js
var PAGE = 200;
var Reader = class {
  #query;
  constructor(settings, signal) {
    const { query: url, token, fetch: fetch2 } = settings;
    this.#query = new Service({ url, token, fetch: fetch2, signal });
  }
  /** Throws if the query API refuses the user's calls, and says why. */
  async probe(uid) {
    await this.#query.get("/v1/users/{uid}/unread", { uid }, { device: "pc" });
  }
  /** Syncs from the device's token on. `onPage` runs after each page. */
  async sync(state, onPage) {
    for (let more = true; more; ) {
      const since = state.token ?? void 0;
      const path = "/v1/users/{uid}/sync";
      const { uid } = state;
      const query = since === void 0 ? {} : { since };
      more = state.takeSync(await this.#query.get(path, { uid }, query));
      onPage();
    }
  }
  /** A page of a chat's messages, as new as what the device knows of it. */
  messages(state, key, after_mid) {
    const [kind, id] = splitKey(key);
    const { uid } = state;
    const query = { after_mid, limit: PAGE, ...reflecting(state, key) };
    if (kind === "group") {
      const path2 = "/v1/groups/{gid}/messages";
      return this.#query.get(path2, { gid: id }, { uid, ...query });
    }
    const path = "/v1/users/{uid}/conversations/{peer}/messages";
    return this.#query.get(path, { uid, peer: id }, query);
  }
  /** Which of these `client_msg_id`s the user's messages above a number have, and their numbers. */
  async find(state, key, ids, above) {
    const found = /* @__PURE__ */ new Map();
    for (let after = above; after !== null; ) {
      const page = await this.messages(state, key, after);
      for (const { srcid, client_msg_id: id, mid } of page.items) {
        if (srcid === state.uid && id && ids.has(id))
          found.set(id, mid);
      }
      after = found.size < ids.size ? nextOf(page) : null;
    }
    return found;
  }
  /** A page of the changes to a chat's messages, as new as what the device knows of it. */
  changes(state, key, { chg: after_chg, ownPos }) {
    const [kind, id] = splitKey(key);
    const { uid } = state;
    const own = ownPos > 0 ? { after_own_pos: ownPos } : {};
    const of = { after_chg, ...own };
    const query = { ...of, limit: PAGE, ...reflecting(state, key) };
    if (kind === "group") {
      const path2 = "/v1/groups/{gid}/changes";
      return this.#query.get(path2, { gid: id }, { uid, ...query });
    }
    const path = "/v1/users/{uid}/conversations/{peer}/changes";
    return this.#query.get(path, { uid, peer: id }, query);
  }
};
function reflecting(state, key) {
  const known = state.knownOf(key);
  return known === null ? {} : { after: [known] };
}

// ../../sdk/typescript/dist/saver.js
var DELAY_MS = 200;
var RETRY_MS = 1e4;
var Saver = class {
  write;
  onProblem;
  #running = null;
  #next = null;
  #problem = null;
  #timer;
  constructor(write, onProblem) {
    this.write = write;
    this.onProblem = onProblem;
  }
  /** Why the last save failed; `null` where it did not. */
  get problem() {
    return this.#problem;
  }
  /** Resolves once it was tried to store all that has changed before this call. */
  save() {
    this.cancel();
    if (this.#running !== null) {
      this.#next ??= this.#running.then(() => {
        this.#next = null;
        return this.save();
      });
      return this.#next;
    }
    this.#running = this.#save();
    return this.#running;
  }
  /** Saves in a while, with what changes until then. */
  saveSoon() {
    const delay = this.#problem === null ? DELAY_MS : RETRY_MS;
    this.#timer ??= setTimeout(() => void this.save(), delay);
  }
  /** What was to be saved in a while is not. */
  cancel() {
    clearTimeout(this.#timer);
    this.#timer = void 0;
  }
  async #save() {
    const before = this.#problem;
    try {
      await this.write();
      this.#problem = null;
    } catch (error) {
      this.#problem = textOf(error);
      this.saveSoon();
    }
    this.#running = null;
    const hasChanged = this.#problem === null !== (before === null);
    if (hasChanged)
      this.onProblem(this.#problem);
  }
};
function textOf(error) {
  return error instanceof Error ? error.message || error.name : String(error);
}

// ../../sdk/typescript/dist/settings.js
var LARGEST_ID = "9223372036854775807";
var NAMES = {
  uid: true,
  device: true,
  gateways: true,
  query: true,
  token: true,
  storage: true,
  maxMsgBytes: true,
  WebSocket: true,
  fetch: true
};
function checkSettings(settings) {
  checkNames("settings", settings, NAMES);
  const { uid, device, gateways, query, token, maxMsgBytes = 1 } = settings;
  checkId("uid", uid);
  checkDevice(device);
  if (!Array.isArray(gateways) || gateways.length === 0) {
    throw new RangeError('gateways must be like ["ws://127.0.0.1:7308"]');
  }
  if (token !== void 0 && typeof token !== "function")
    checkToken(token);
  checkStorage(settings.storage);
  if (!Number.isSafeInteger(maxMsgBytes) || maxMsgBytes < 1) {
    throw new RangeError("maxMsgBytes must be a whole number from 1 on");
  }
  for (const name of ["WebSocket", "fetch"]) {
    const given = settings[name];
    if (given !== void 0 && typeof given !== "function") {
      throw new TypeError(`${name} must be as the platform's own`);
    }
  }
  if ((settings.WebSocket ?? globalThis.WebSocket) === void 0) {
    throw new RangeError("there is no WebSocket: Node has one from version 22 on; for others give settings.WebSocket");
  }
  return {
    ...settings,
    gateways: gateways.map((url) => baseUrl("gateways", "ws", url)),
    query: baseUrl("query", "http", query)
  };
}
function checkStorage(storage) {
  if (storage === void 0)
    return;
  for (const method of ["load", "save"]) {
    if (typeof storage?.[method] !== "function") {
      throw new TypeError(`storage must have the methods load and save, as new MemoryStorage() has; ${method} is none`);
    }
  }
}
function checkDevice(device) {
  checkNames("device", device, { id: true, class: true, name: true });
  if (!DEVICE_CLASSES.includes(device.class)) {
    throw new RangeError(`device.class must be ${DEVICE_CLASSES.join(" or ")}, not ${device.class}`);
  }
  checkText("device.id", device.id);
  if (!/^[\w.-]{1,64}$/.test(device.id)) {
    throw new RangeError(`device.id must be 1 to 64 characters, A-Z, a-z, 0-9, '.', '_' and '-', not ${device.id}`);
  }
  const { name = "" } = device;
  checkText("device.name", name);
  if (Array.from(name).length > 64 || !isWellFormed(name)) {
    throw new RangeError("device.name must be 64 characters at most, well-formed Unicode");
  }
}
function checkChat(chat) {
  const [kind, id] = splitKey(chat);
  checkId(kind === "user" ? "uid" : "gid", id);
}
function checkId(name, id) {
  checkText(name, id);
  if (!isUid(id)) {
    throw new RangeError(`${name} must be a decimal number from 1 to ${LARGEST_ID}, not ${id}`);
  }
}
function isUid(text) {
  const more = text.length - LARGEST_ID.length;
  const fits = more < 0 || more === 0 && text <= LARGEST_ID;
  return /^[1-9]\d*$/.test(text) && fits;
}
function checkMid(mid) {
  if (!Number.isSafeInteger(mid) || mid < 1) {
    throw new RangeError(`mid must be a whole number from 1 on, not ${mid}`);
  }
}
function checkText(name, text) {
  if (typeof text !== "string") {
    const given = text === void 0 ? "absent" : `a ${typeof text}`;
    throw new TypeError(`${name} must be a string, and is ${given}`);
  }
}
function checkMessage(msg, clientMsgId, maxMsgBytes) {
  checkText("msg", msg);
  checkText("clientMsgId", clientMsgId);
  const bytes = (text) => new TextEncoder().encode(text).length;
  if (msg === "" || bytes(msg) > maxMsgBytes) {
    throw new RangeError(`a message must have 1 to ${maxMsgBytes} bytes`);
  }
  if (msg.includes("\0")) {
    throw new RangeError("a message must be without NUL");
  }
  if (!isWellFormed(msg) || !isWellFormed(clientMsgId)) {
    throw new RangeError("a message must be well-formed Unicode");
  }
  const isId = clientMsgId !== "" && !/\p{Cc}/u.test(clientMsgId);
  if (!isId || bytes(clientMsgId) > 64) {
    throw new RangeError("a client_msg_id must have 1 to 64 bytes, without control characters");
  }
}
function isWellFormed(text) {
  return !/\p{Surrogate}/u.test(text);
}

// ../../sdk/typescript/dist/storage.js
var StorageEmptied = class extends Error {
  name = "StorageEmptied";
  constructor() {
    super("what was stored is gone");
  }
};

// ../../sdk/typescript/dist/updates.js
var Updates = class {
  #subscribers = /* @__PURE__ */ new Set();
  #ended = null;
  /** An iterator over the updates from now on. It ends with the device: by its error, if there is one. */
  subscribe() {
    const subscriber = new Subscriber(() => this.#subscribers.delete(subscriber));
    if (this.#ended !== null)
      subscriber.end(this.#ended.error);
    else
      this.#subscribers.add(subscriber);
    return subscriber;
  }
  emit(update) {
    for (const subscriber of this.#subscribers)
      subscriber.push(update);
  }
  end(error) {
    this.#ended = { error };
    for (const subscriber of this.#subscribers)
      subscriber.end(error);
    this.#subscribers.clear();
  }
};
var Subscriber = class {
  unsubscribe;
  #waiting = [];
  /** A chat waits once, however often it changes, and so do who types and who is there. Others wait each for itself, so an iterator has to be read, or ended by `return`. */
  #once = /* @__PURE__ */ new Map();
  #wake = null;
  #ended = null;
  constructor(unsubscribe) {
    this.unsubscribe = unsubscribe;
  }
  push(update) {
    const key = keyOf(update);
    const waiting = key === null ? void 0 : this.#once.get(key);
    if (waiting !== void 0) {
      waiting.update = update;
      return;
    }
    const item = { update };
    if (key !== null)
      this.#once.set(key, item);
    this.#waiting.push(item);
    this.#wake?.();
  }
  end(error) {
    this.#ended ??= { error };
    this.#wake?.();
  }
  async next() {
    for (; ; ) {
      const item = this.#waiting.shift();
      if (item !== void 0) {
        const key = keyOf(item.update);
        if (key !== null)
          this.#once.delete(key);
        return { value: item.update, done: false };
      }
      if (this.#ended !== null) {
        const { error } = this.#ended;
        this.#ended = { error: null };
        if (error !== null)
          throw error;
        return { value: void 0, done: true };
      }
      await new Promise((resolve) => this.#wake = resolve);
    }
  }
  async return() {
    this.unsubscribe();
    this.#waiting.length = 0;
    this.end(null);
    return { value: void 0, done: true };
  }
  [Symbol.asyncIterator]() {
    return this;
  }
};
function keyOf(update) {
  switch (update.type) {
    case "chat":
      return `chat ${update.chat}`;
    case "typing":
      return `typing ${update.chat} ${update.from}`;
    case "presence":
      return `presence ${update.uid}`;
    default:
      return null;
  }
}

// ../../sdk/typescript/dist/device.js
var MAX_MSG_BYTES = 16384;
var RETRY_MS2 = 1e3;
var TYPING_MS = 1e3;
var Device = class _Device {
  #settings;
  #state;
  #outbox;
  #reader;
  #link;
  #saver;
  #updates = new Updates();
  #closing = new AbortController();
  #running;
  /** Frames, syncs and pages of fetches are handled one after the other: a page that is older than what was handled before would undo it. */
  #last = Promise.resolve();
  #fetches = /* @__PURE__ */ new Map();
  /** Ends what is for one connection only. */
  #connected = new AbortController();
  #isConnected = false;
  /** What is next would be too fast for the gateway. */
  #isPaced = false;
  /** Old sends of a chat are looked for. */
  #isLooking = false;
  /** What the user looks at. */
  #focus = null;
  /** The gateway knows of it. */
  #isFocusTold = true;
  #typedAt = 0;
  /**
   * Loads what is stored, and begins to connect. Where nothing can be loaded it begins with nothing, and stores nothing.
   *
   * @throws TypeError or RangeError for settings that cannot work, or a storage of another user.
   */
  static async open(settings) {
    const checked = checkSettings(settings);
    let save = settings.storage?.save.bind(settings.storage);
    let stored = { head: null, chats: [], queue: [] };
    try {
      stored = await settings.storage?.load() ?? stored;
    } catch (error) {
      save = () => Promise.reject(error);
    }
    return new _Device(checked, stored, save);
  }
  constructor(settings, { head, chats, queue }, save) {
    const { uid } = settings;
    if (head !== null && head.uid !== uid) {
      throw new RangeError(`the storage is that of user ${head.uid}`);
    }
    this.#settings = settings;
    this.#state = head === null ? new DeviceState(uid) : DeviceState.of(head, chats);
    this.#outbox = new Outbox(queue);
    const { signal } = this.#closing;
    this.#reader = new Reader(settings, signal);
    this.#saver = new Saver(() => this.#save(save), (problem) => this.#updates.emit({ type: "storage", problem }));
    this.#saver.saveSoon();
    this.#link = new Link(settings, this.#handler(), signal);
    this.#running = this.#run();
  }
  /** All conversations and groups, deleted contacts too. */
  get chats() {
    return this.#state.chats;
  }
  /** What others see of the device's user; `null` where the user has set nothing, or before the first sync. */
  get profile() {
    return this.#state.profile;
  }
  /** Up to where it knows everything; `null` before the first sync. */
  get token() {
    return this.#state.token;
  }
  /** How often everything was fetched. */
  get fullSyncs() {
    return this.#state.fullSyncs;
  }
  /** Whether events come at present. */
  get isConnected() {
    return this.#isConnected;
  }
  /** Sends and read-acks that have not been answered, oldest first. */
  get unanswered() {
    return this.#outbox.unanswered;
  }
  /** Sends that were refused, with their texts, oldest first: they stay until they are dismissed. */
  get refused() {
    return this.#outbox.refused;
  }
  /** Why the device is not stored at present, where it has a storage; it goes on without. */
  get storageProblem() {
    return this.#saver.problem;
  }
  /** What the device learns from now on. The iterator ends when the device is closed, and throws where it cannot go on. */
  updates() {
    return this.#updates.subscribe();
  }
  /**
   * Sends a message, now or as soon as there is a connection; the update `sent` or `refused` tells the outcome.
   *
   * @returns its `client_msg_id`, once the message is stored, unless the storage fails.
   * @throws TypeError or RangeError for what cannot be sent.
   */
  async send(chat, msg, clientMsgId = newId()) {
    this.#checkOpen();
    checkChat(chat);
    checkMessage(msg, clientMsgId, this.#settings.maxMsgBytes ?? MAX_MSG_BYTES);
    const { lastMid = 0 } = this.chats.get(chat) ?? {};
    this.#outbox.send(chat, clientMsgId, msg, lastMid);
    this.#flush();
    await this.#saver.save();
    return clientMsgId;
  }
  /** Forgets a send that was refused: the user knows, or has sent its text again. */
  async dismiss(clientMsgId) {
    this.#checkOpen();
    this.#outbox.dismiss(clientMsgId);
    await this.#saver.save();
  }
  /** Says that the user has read a chat up to a message, now or as soon as there is a connection. */
  async read(chat, mid) {
    this.#checkOpen();
    checkChat(chat);
    checkMid(mid);
    this.#outbox.read(chat, mid);
    this.#flush();
    await this.#saver.save();
  }
  /** Says that the user types in a chat: for every key that is pressed, since so much is told once a second. Lost where there is no connection, or too much was written before. */
  typing(chat) {
    this.#checkOpen();
    checkChat(chat);
    const [kind, id] = splitKey(chat);
    const now = Date.now();
    if (!this.#isConnected || Math.abs(now - this.#typedAt) < TYPING_MS)
      return;
    this.#typedAt = now;
    const to = kind === "group" ? { gid: id } : { to: id };
    this.#link.tryWrite({ type: "typing", ...to });
  }
  /** Says which chat the user looks at, or none: updates tell whether its user is there, and who types in it if it is a group. */
  focus(chat) {
    this.#checkOpen();
    if (chat !== null)
      checkChat(chat);
    this.#focus = chat;
    this.#isFocusTold = false;
    this.#flush();
  }
  /** In how many milliseconds it may be written; 0 if it is told. */
  #writeFocus() {
    if (this.#isFocusTold)
      return 0;
    const [kind, id] = this.#focus === null ? [] : splitKey(this.#focus);
    const at = id === void 0 ? {} : kind === "group" ? { gid: id } : { peer: id };
    const wait = this.#link.tryWrite({ type: "focus", ...at });
    this.#isFocusTold = wait === 0;
    return wait;
  }
  /**
   * Fetches the messages and changes of a chat that are missing. Frames wait for each page, unless a ping is among them.
   *
   * @throws ServiceError where the query API refuses or does not answer, and RangeError for what is no chat.
   */
  async fetch(key) {
    this.#checkOpen();
    checkChat(key);
    const fetch2 = new ChatFetch(this.#reader, this.#state, key);
    this.#fetches.set(fetch2, key);
    try {
      while (await this.#exclusively(() => this.#fetchPage(fetch2)))
        ;
    } finally {
      this.#fetches.delete(fetch2);
    }
    if (fetch2.hasBegun)
      this.#changed(key);
  }
  /** A pong says that everything before the ping is handled: that has its turn then, and the page another one. */
  async #fetchPage(fetch2) {
    this.#checkOpen();
    const isNext = await fetch2.step(this.#link.pinged());
    this.#saver.saveSoon();
    return isNext;
  }
  /** Tries to connect at once, where it waits for its next attempt: for programs that know that the network is back. */
  connectNow() {
    this.#link.connectNow();
  }
  /** Ends the connection, once everything is stored. Calls after it throw, as they do where the device could not go on. */
  async close() {
    this.#closing.abort(null);
    await this.#running;
  }
  /** Throws why the device has ended, if it has. */
  #checkOpen() {
    const { aborted, reason } = this.#closing.signal;
    if (aborted)
      throw reason ?? new Error("the device is closed");
  }
  async #run() {
    try {
      await this.#link.run();
    } catch (error) {
      this.#closing.abort(error);
    }
    this.#connected.abort();
    await this.#last;
    this.#isConnected = false;
    await this.#saver.save();
    this.#saver.cancel();
    this.#updates.end(this.#closing.signal.reason);
  }
  async #save(save, isAgain = false) {
    const queue = this.#outbox.drainChanges();
    const changes = { ...this.#state.drainChanges(), queue };
    try {
      await save?.(changes);
    } catch (error) {
      this.#state.putBack(changes.chats.keys());
      this.#outbox.putBack(queue.keys());
      if (!(error instanceof StorageEmptied) || isAgain)
        throw error;
      this.#state.putBack(this.#state.chats.keys());
      this.#outbox.putBack(this.#outbox.places());
      await this.#save(save, true);
    }
  }
  #exclusively(work) {
    const done = this.#last.then(work);
    this.#last = done.catch(() => void 0);
    return done;
  }
  #handler() {
    const { id, class: cls, name = "" } = this.#settings.device;
    const device = { id, class: cls, name };
    return {
      hello: () => ({ type: "hello", device, since: this.#state.token }),
      arrived: () => this.#exclusively(async () => {
        for (let frame; (frame = this.#link.take()) !== void 0; ) {
          await this.#take(frame);
          this.#saver.saveSoon();
        }
      }),
      disconnected: (reason) => {
        this.#isConnected = false;
        this.#connected.abort();
        this.#connected = new AbortController();
        this.#outbox.disconnected();
        this.#updates.emit({ type: "disconnected", reason });
      },
      probe: () => this.#reader.probe(this.#state.uid)
    };
  }
  /** Without a token the sync did not come to its end, since the device is closed. */
  #resume() {
    const since = this.#state.token;
    if (since !== null)
      this.#link.write({ type: "resume", since });
  }
  async #take(frame) {
    switch (frame.type) {
      case "welcome":
        this.#isConnected = true;
        this.#link.welcomed(frame);
        this.#settleRepeats();
        this.#isFocusTold = this.#focus === null;
        this.#flush();
        return this.#updates.emit({ type: "connected" });
      case "sync_required":
        await sleep(frame.after_ms, this.#closing.signal);
        await this.#sync();
        return this.#resume();
      case "event":
        return this.#takeEvent(frame);
      case "head":
        return this.#changed(this.#state.takeHead(frame));
      case "ping":
        if (frame.token !== void 0)
          this.#state.takePing(frame.token);
        return this.#link.write({ type: "pong" });
      case "accepted":
        this.#outbox.accepted(frame.ref);
        return this.#flush();
      case "sent":
        return this.#sent(frame.ref, frame.mid ?? null);
      case "refused":
        if (frame.retry)
          return this.#againLater(frame.ref);
        return this.#refused(frame.ref, frame);
      case "error":
        return this.#updates.emit(frame);
      case "typing": {
        const { from, gid } = frame;
        const chat = gid === void 0 ? `user:${from}` : `group:${gid}`;
        return this.#updates.emit({ type: "typing", chat, from });
      }
      case "presence": {
        const { uid, online, classes = [], last_seen = null } = frame;
        const lastSeen = last_seen;
        return this.#updates.emit({
          type: "presence",
          uid,
          online,
          classes,
          lastSeen
        });
      }
      case "reconnect":
        return this.#link.reconnect(frame.after_ms);
      case "replaced":
    }
  }
  /** A gateway that tells the same again before it closes has brought the device no further. */
  #takeEvent(frame) {
    const { profile } = this.#state;
    const isNew = !this.#state.knows(frame);
    this.#changed(this.#state.takeEvent(frame));
    if (this.#state.profile !== profile)
      this.#updates.emit({ type: "profile" });
    if (isNew)
      this.#link.getsOn();
  }
  #changed(chat) {
    if (chat === null)
      return;
    for (const [fetch2, key] of this.#fetches) {
      if (key === chat)
        fetch2.changed();
    }
    this.#updates.emit({ type: "chat", chat });
  }
  #sent(ref, mid) {
    const item = this.#outbox.answered(ref);
    if (item !== null)
      this.#link.getsOn();
    this.#flush();
    if (item?.kind !== "send")
      return;
    const { chat, clientMsgId } = item;
    this.#updates.emit({ type: "sent", chat, clientMsgId, mid });
  }
  #againLater(ref) {
    this.#outbox.hold(ref);
    const { signal } = this.#connected;
    void sleep(RETRY_MS2, signal).then(() => {
      if (signal.aborted)
        return;
      this.#outbox.again(ref);
      this.#flush();
    });
  }
  #refused(ref, { reason, detail }) {
    const item = this.#outbox.refuse(ref, { reason, detail });
    this.#flush();
    if (item === null)
      return;
    const { chat } = item;
    this.#updates.emit(item.kind === "read" ? { type: "read_refused", chat, mid: item.mid, reason, detail } : { type: "refused", chat, clientMsgId: item.clientMsgId, reason, detail });
  }
  /** Writes what waits, as fast as the gateway takes it. */
  #flush() {
    if (!this.#isConnected || this.#isPaced)
      return;
    void this.#lookForOld();
    const write = (frame) => this.#link.tryWrite(frame);
    const wait = this.#writeFocus() || this.#outbox.write(write);
    if (wait === 0)
      return;
    this.#isPaced = true;
    void sleep(wait, this.#connected.signal).then(() => {
      this.#isPaced = false;
      this.#flush();
    });
  }
  /** What the device has itself is on the log. Its answer was lost with an earlier connection. */
  #settleRepeats() {
    for (const { chat, seq, clientMsgId } of this.#outbox.repeats) {
      const mid = this.#state.midOf(chat, clientMsgId);
      if (mid !== null)
        this.#sent(String(seq), mid);
    }
  }
  /** Looks for sends that are too old to be known as repeats, one chat after the other: where they are on the log they would be there twice. */
  async #lookForOld() {
    const [first] = this.#outbox.unsure;
    if (first === void 0 || this.#isLooking)
      return;
    this.#isLooking = true;
    const { chat } = first;
    const sends = this.#outbox.unsure.filter((item) => item.chat === chat);
    const found = await this.#find(chat, sends);
    for (const { seq, clientMsgId } of found === null ? [] : sends) {
      const mid = found?.get(clientMsgId);
      if (mid === void 0)
        this.#outbox.lookedFor(seq);
      else
        this.#sent(String(seq), mid);
    }
    this.#isLooking = false;
    this.#flush();
  }
  /** Which of these are on the log. `null` where the connection ends before that is known. */
  async #find(chat, sends) {
    const { signal } = this.#connected;
    const ids = new Set(sends.map((item) => item.clientMsgId));
    const above = Math.min(...sends.map((item) => item.afterMid ?? 0));
    while (!signal.aborted) {
      try {
        return await this.#reader.find(this.#state, chat, ids, above);
      } catch (error) {
        const status = error instanceof ServiceError ? error.status : 0;
        if (status === 403 || status === 404)
          return /* @__PURE__ */ new Map();
        await sleep(RETRY_MS2, signal);
      }
    }
    return null;
  }
  async #sync() {
    await this.#reader.sync(this.#state, () => {
      for (const fetch2 of this.#fetches.keys())
        fetch2.changed();
      this.#saver.saveSoon();
    });
    this.#updates.emit({ type: "synced" });
  }
};

// ../../sdk/typescript/dist/indexeddb.js
var STORES = ["head", "chats", "queue"];
var OPEN_MS = 1e4;
var IndexedDbStorage = class {
  name;
  factory;
  /** `null` while the database is not open: browsers close it whenever they like. */
  #database = null;
  /** It was loaded, and not closed since: what is there is the device's. */
  #isLoaded = false;
  /** A database for each device, for example `tidemark-1000-phone-1`. */
  constructor(name, factory = indexedDB) {
    this.name = name;
    this.factory = factory;
  }
  async load() {
    const { database } = await this.#open();
    const transaction = database.transaction(STORES, "readonly");
    const all = (store) => result(transaction.objectStore(store).getAll());
    const [heads, chats, queue] = await Promise.all([
      all("head"),
      all("chats"),
      all("queue")
    ]);
    this.#isLoaded = true;
    return { head: heads[0] ?? null, chats, queue };
  }
  async save(changes) {
    if (!this.#isLoaded)
      throw new Error("save before load");
    const transaction = this.#begin();
    if (transaction !== null)
      return this.#write(transaction, changes);
    const copy = structuredClone(changes);
    const { database, isNew } = await this.#open();
    if (isNew)
      throw new StorageEmptied();
    await this.#write(database.transaction(STORES, "readwrite"), copy);
  }
  /** Ends the use of the database. */
  close() {
    this.#isLoaded = false;
    this.#forget();
  }
  /** `null` where the database has to be opened again. */
  #begin() {
    try {
      return this.#database?.transaction(STORES, "readwrite") ?? null;
    } catch (error) {
      if (!isNamed(error, "InvalidStateError"))
        throw error;
      this.#forget();
      return null;
    }
  }
  async #write(transaction, changes) {
    const put = (name, values) => {
      const store = transaction.objectStore(name);
      for (const [key, value] of values) {
        if (value === null)
          store.delete(key);
        else
          store.put(value, key);
      }
    };
    try {
      put("head", [["head", changes.head]]);
      put("chats", changes.chats);
      put("queue", changes.queue);
    } catch (error) {
      transaction.abort();
      throw error;
    }
    try {
      await completed(transaction);
    } catch (error) {
      this.#forget();
      throw error;
    }
  }
  #forget() {
    this.#database?.close();
    this.#database = null;
  }
  /** The database, and whether it was made just now. */
  async #open() {
    if (this.#database !== null) {
      return { database: this.#database, isNew: false };
    }
    const request = this.factory.open(this.name, 1);
    let isNew = false;
    request.onupgradeneeded = () => {
      isNew = true;
      for (const store of STORES)
        request.result.createObjectStore(store);
    };
    const database = await opened(request);
    this.#database = database;
    const forget = () => {
      if (this.#database === database)
        this.#forget();
    };
    database.onclose = forget;
    database.onversionchange = () => {
      database.close();
      forget();
    };
    return { database, isNew };
  }
};
function isNamed(error, name) {
  return error instanceof Error && error.name === name;
}
function opened(request) {
  return new Promise((resolve, reject) => {
    const fail = (error) => {
      clearTimeout(timer);
      reject(error);
      request.onsuccess = () => request.result.close();
    };
    const inUse = () => fail(new Error("the database does not open: another page may be using it"));
    const timer = setTimeout(inUse, OPEN_MS);
    request.onblocked = inUse;
    request.onerror = () => fail(request.error);
    request.onsuccess = () => {
      clearTimeout(timer);
      resolve(request.result);
    };
  });
}
function result(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
function completed(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error);
  });
}

// src/times.ts
var TIME = { hour: "2-digit", minute: "2-digit" };
var DAY = { day: "numeric", month: "short" };
function timeText(ts) {
  const at = new Date(ts);
  const time = at.toLocaleTimeString([], TIME);
  const isToday = at.toDateString() === (/* @__PURE__ */ new Date()).toDateString();
  return isToday ? time : `${at.toLocaleDateString([], DAY)}, ${time}`;
}
function shortTimeText(ts) {
  const at = new Date(ts);
  const isToday = at.toDateString() === (/* @__PURE__ */ new Date()).toDateString();
  return isToday ? at.toLocaleTimeString([], TIME) : at.toLocaleDateString([], DAY);
}

// src/chat-list.ts
function listedChats(session) {
  const chats = [...session.device.chats.values()].filter(isListed);
  const time = (chat) => chat.last?.ts ?? "";
  const isPinned = (chat) => chat.with.type === "user" && chat.with.flags.pinned;
  return chats.sort(
    (a, b) => Number(isPinned(b)) - Number(isPinned(a)) || (time(b) < time(a) ? -1 : time(b) > time(a) ? 1 : 0) || (a.key < b.key ? -1 : 1)
  );
}
function isListed(chat) {
  return chat.with.type === "group" || chat.lastMid > 0 && !chat.with.deleted;
}
function chatName(session, key) {
  const [kind, id] = splitKey(key);
  if (kind === "user")
    return id === session.uid ? "Notes to myself" : session.names.of(id);
  const chat = session.device.chats.get(key);
  return chat?.with.type === "group" ? chat.with.name : `Group ${id}`;
}
function countText(unread) {
  return unread === null ? "some" : String(unread);
}
function countsText({ unread }) {
  return DEVICE_CLASSES.map(
    (cls) => `${countText(unread[cls])} on ${cls}`
  ).join(", ");
}
function otherClass(cls) {
  return cls === "pc" ? "mobile" : "pc";
}
var ChatList = class {
  constructor(session, open) {
    this.session = session;
    this.open = open;
    const list = element("ul", { class: "chats" });
    this.#rows = new KeyedList(
      list,
      (chat) => chat.key,
      (chat) => this.#row(chat.key)
    );
    this.node = element("div", { class: "scroll" }, list, this.#empty);
  }
  node;
  #rows;
  #empty = element("p", { class: "hint" }, "No conversations yet.");
  render() {
    const chats = listedChats(this.session);
    this.#rows.update(chats);
    this.#empty.hidden = chats.length > 0 || this.session.device.token === null;
  }
  #row(key) {
    const name = element("span", { class: "name" });
    const time = element("span", { class: "time" });
    const preview2 = element("span", { class: "preview" });
    const unread = element("span", { class: "badge" });
    const other = element("span", { class: "other" });
    const pinned = element("span", { class: "pin", title: "Pinned" }, "pinned");
    const counts = element("span", { class: "counts" }, pinned, other, unread);
    const open = element(
      "button",
      { type: "button", class: "chat", "data-chat": key },
      name,
      time,
      preview2,
      counts
    );
    open.addEventListener("click", () => this.open(key));
    const { session } = this;
    const { cls } = session.user;
    return {
      node: element("li", {}, open),
      update: (chat) => {
        setLine(name, theirs(chatName(session, key)));
        setText(time, chat.last ? shortTimeText(chat.last.ts) : "");
        setLine(preview2, ...previewOf(session, chat));
        const [own, others] = [chat.unread[cls], chat.unread[otherClass(cls)]];
        setText(unread, own === 0 ? "" : `${countText(own)} unread`);
        unread.dataset["count"] = own === null ? "•" : String(own);
        const differs = others !== own && others !== 0;
        counts.title = `Unread: ${countsText(chat)}`;
        setText(
          other,
          differs ? `${countText(others)} on ${otherClass(cls)}` : ""
        );
        pinned.hidden = chat.with.type !== "user" || !chat.with.flags.pinned;
        if (session.shown === key) open.setAttribute("aria-current", "true");
        else open.removeAttribute("aria-current");
      }
    };
  }
};
function previewOf(session, chat) {
  const waiting = session.waiting(chat.key).at(-1);
  if (waiting !== void 0) return ["Waiting: ", theirs(waiting.msg)];
  const { last } = chat;
  if (last === null) return [];
  const text = last.recalled ? "(recalled)" : theirs(last.msg);
  if (last.srcid === session.uid) return ["You: ", text];
  return chat.with.type === "group" ? [theirs(session.names.of(last.srcid)), ": ", text] : [text];
}

// src/composer.ts
var Composer = class {
  constructor(send, change, types) {
    this.send = send;
    this.change = change;
    this.types = types;
    this.#cancel = button("Cancel", {}, () => this.edit(null));
    const label = element("label", { class: "grow" }, this.#label, this.#text);
    const parts = [label, this.#cancel, this.#send];
    this.node = element("form", { class: "composer" }, ...parts);
    this.node.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#submit();
    });
    this.#text.addEventListener("input", () => this.types());
    this.#text.addEventListener("keydown", (event) => {
      if (isOfInputMethod(event)) return;
      if (event.key === "Escape" && this.#edited !== null) this.edit(null);
      const isEnter = event.key === "Enter" && !event.shiftKey;
      if (!isEnter) return;
      event.preventDefault();
      void this.#submit();
    });
    this.edit(null);
  }
  node;
  #label = element("span", { class: "hidden" });
  #text = element("textarea", {
    rows: "2",
    placeholder: "Message",
    dir: "auto"
  });
  #send = element("button", { type: "submit", class: "primary" });
  #cancel;
  #drafts = /* @__PURE__ */ new Map();
  #chat = null;
  #edited = null;
  /** Turns to a chat; what was begun in another one waits there. */
  show(chat, name) {
    this.#label.textContent = `Message to ${name}`;
    if (chat === this.#chat) return;
    if (this.#edited !== null) this.edit(null);
    if (this.#chat !== null) this.#drafts.set(this.#chat, this.#text.value);
    this.#chat = chat;
    this.#text.value = (chat && this.#drafts.get(chat)) ?? "";
  }
  /** Edits a message, or goes back to a new one, which waits meanwhile. */
  edit(message, text = message?.msg ?? "") {
    const wasEditing = this.#edited !== null;
    this.#edited = message;
    this.#cancel.hidden = message === null;
    this.#send.textContent = message === null ? "Send" : "Save";
    if (message === null && !wasEditing) return;
    const chat = this.#chat;
    if (chat !== null && !wasEditing) this.#drafts.set(chat, this.#text.value);
    const draft = (chat && this.#drafts.get(chat)) ?? "";
    this.#text.value = message === null ? draft : text;
    this.#text.focus();
  }
  focus() {
    this.#text.focus();
  }
  async #submit() {
    const text = this.#text.value.trim();
    if (text === "") return;
    const [chat, edited] = [this.#chat, this.#edited];
    if (edited === null) this.#text.value = "";
    else this.edit(null);
    const isTaken = edited === null ? await this.send(text) : await this.change(edited, text);
    if (!isTaken && chat !== null) this.#restore(chat, edited, text);
  }
  /** What was not taken is not lost, and neither is what was begun meanwhile. */
  #restore(chat, edited, text) {
    const isHere = chat === this.#chat && this.#edited === null;
    if (isHere && edited !== null) return this.edit(edited, text);
    const begun = isHere ? this.#text.value : this.#drafts.get(chat);
    const both = begun ? `${text}
${begun}` : text;
    if (isHere) this.#text.value = both;
    else this.#drafts.set(chat, both);
  }
};
function isOfInputMethod(event) {
  return event.isComposing || event.keyCode === 229;
}

// src/outcomes.ts
var TIMEOUT_MS2 = 5e3;
var RETRY_MS3 = 100;
var REASONS = {
  blocked: "you are blocked there",
  dissolved: "the group has ended",
  "group-full": "the group is full",
  "has-left": "somebody whom you add has left the group, and has to come back by himself",
  muted: "you may not write here",
  "no-right": "only admins may do that",
  "not-a-member": "you are not a member of this group",
  "not-the-author": "it is not your message",
  recalled: "it was recalled before",
  "too-late": "it is too old for that",
  "too-many-conversations": "you have begun too many conversations today",
  "too-many-memberships": "you have added too many people today, or somebody is in too many groups",
  "too-old": "it is too old for that",
  "unknown-group": "there is no such group"
};
function reasonText(reason, detail = "") {
  return REASONS[reason] ?? (detail || reason);
}
function errorText(error) {
  if (error instanceof ServiceError) {
    return error.problem?.detail ?? "there is no connection";
  }
  return error instanceof Error ? error.message : String(error);
}
async function awaitOutcome(query, accepted) {
  const { partition, offset } = accepted;
  const end = Date.now() + TIMEOUT_MS2;
  for (; ; ) {
    const outcome = await query.get(
      "/v1/inbound/{partition}/{offset}",
      { partition, offset },
      { timeout_ms: TIMEOUT_MS2 }
    );
    if (outcome.state === "refused") {
      throw new Error(reasonText(outcome.reason));
    }
    if (outcome.state !== "pending") return;
    if (Date.now() > end) {
      throw new Error("it is not known yet, and may still be done");
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS3));
  }
}

// src/group-dialogs.ts
var BEHIND_MS = 1e4;
var Dialog = class {
  node;
  problem = element("p", { class: "problem", role: "alert" });
  constructor(title, ...content) {
    const close = button("Close", {}, () => this.node.close());
    const heading = element("h3", {}, ...title);
    const parts = [heading, ...content, this.problem, close];
    const label = heading.textContent ?? "";
    this.node = element("dialog", { "aria-label": label }, ...parts);
    this.node.addEventListener("close", () => this.node.remove());
  }
  open(parent) {
    parent.append(this.node);
    this.node.showModal();
  }
  /** Does something, and closes unless that fails. Then something else may have the focus. */
  async attempt(work, then = () => void 0) {
    this.problem.textContent = "";
    try {
      const result2 = await work();
      this.node.close();
      then(result2);
    } catch (error) {
      this.problem.textContent = `That failed: ${errorText(error)}`;
    }
  }
};
function uidsOf(text) {
  const uids = new Set(text.split(/[\s,;]+/).filter((word) => word !== ""));
  for (const uid of uids) {
    if (!isUid(uid)) throw new Error(`${uid} is not the number of a user`);
  }
  return [...uids];
}
function openNewChat(parent, open) {
  const uid = uidField("Number of the user");
  const submit = element(
    "button",
    { type: "submit", class: "primary" },
    "Open"
  );
  const form = element("form", {}, uid.row, submit);
  const dialog = new Dialog(["New conversation"], form);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const key = `user:${uid.input.value}`;
    void dialog.attempt(
      async () => checkChat(key),
      () => open(key)
    );
  });
  dialog.open(parent);
}
function openNewGroup(session, parent, open) {
  const name = field("Name", {
    maxlength: "100",
    required: true,
    dir: "auto"
  });
  const members = field("Members besides you (their numbers)", {
    placeholder: "1001, 1002",
    required: true
  });
  const submit = element(
    "button",
    { type: "submit", class: "primary" },
    "Create"
  );
  const form = element("form", {}, name.row, members.row, submit);
  const dialog = new Dialog(["New group"], form);
  const client_id = newId();
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void dialog.attempt(
      async () => {
        const accepted = await session.ingest.post(
          "/v1/groups",
          {},
          {
            owner: session.uid,
            name: name.input.value,
            members: uidsOf(members.input.value),
            client_id
          }
        );
        await awaitOutcome(session.query, accepted);
        return accepted.gid;
      },
      (gid) => open(`group:${gid}`)
    );
  });
  dialog.open(parent);
}
function openMembers(session, parent, key) {
  const chat = session.device.chats.get(key);
  if (chat?.with.type !== "group") return;
  const { name, role } = chat.with;
  const [, gid] = splitKey(key);
  const attributes = {
    class: "members",
    tabindex: "0",
    "aria-label": "Members"
  };
  const list = element("ul", attributes);
  const added = field("Add members (their numbers)", { required: true });
  const submit = element("button", { type: "submit", class: "primary" }, "Add");
  const form = element("form", {}, added.row, submit);
  form.hidden = role === "member";
  const isOwner = role === "owner";
  const title = ["Members of ", theirs(name)];
  const leave = button(
    isOwner ? "End the group" : "Leave the group",
    { class: "danger" },
    () => change(() => isOwner ? { dissolve: true } : { leave: true })
  );
  const dialog = new Dialog(title, list, form, leave);
  const change = (what) => void dialog.attempt(async () => {
    const path = "/v1/groups/{gid}/changes";
    const body = { by: session.uid, ...what() };
    const accepted = await session.ingest.post(path, { gid }, body);
    await awaitOutcome(session.query, accepted);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    change(() => ({ add: uidsOf(added.input.value) }));
  });
  dialog.open(parent);
  membersOf(session, key).then((members) => {
    for (const { uid, role: role2 } of members) {
      const what = role2 === "member" ? "" : ` (${role2})`;
      const name2 = session.names.of(uid);
      const number = name2.endsWith(uid) ? "" : `, ${uid}`;
      list.append(element("li", {}, theirs(name2), number + what));
    }
  }).catch((error) => {
    const text = errorText(error);
    dialog.problem.textContent = `The members are not known: ${text}`;
  });
}
async function membersOf(session, key) {
  const [, gid] = splitKey(key);
  const { token } = session.device;
  const after = token === null ? {} : { after: [token] };
  const members = [];
  let cursor;
  do {
    const of = { uid: session.uid, timeout_ms: BEHIND_MS };
    const query = { ...of, ...after, ...cursor ? { cursor } : {} };
    const path = "/v1/groups/{gid}/members";
    const page = await session.query.get(path, { gid }, query);
    members.push(...page.items);
    cursor = page.next;
  } while (cursor);
  return members;
}

// src/reactions.ts
var OFFERED = ["👍", "❤️", "😂", "😮", "😢", "🙏"];
var Reactions = class {
  constructor(session, mid) {
    this.session = session;
    this.mid = mid;
    const shown = element("span", { role: "group", "aria-label": "Reactions" });
    this.#shown = new KeyedList(
      shown,
      ({ emoji }) => emoji,
      ({ emoji }) => this.#reaction(emoji)
    );
    const offer = (emoji) => button(emoji, { class: "quiet" }, () => this.#toggle(emoji));
    const attributes = { role: "group", "aria-label": "Choose a reaction" };
    this.#offered = element("span", attributes, ...OFFERED.map(offer));
    this.#choose = button("React", { class: "quiet" }, () => {
      this.#offer(this.#offered.hidden);
    });
    this.#offer(false);
    const parts = [shown, this.#choose, this.#offered];
    this.node = element("span", {}, ...parts);
  }
  node;
  #shown;
  #choose;
  #offered;
  /** Of the user. */
  #own;
  update(message) {
    this.node.hidden = message.recalled === true;
    const reactions = message.reactions ?? {};
    this.#own = reactions[this.session.uid];
    const users = /* @__PURE__ */ new Map();
    for (const [uid, emoji] of Object.entries(reactions)) {
      users.set(emoji, [...users.get(emoji) ?? [], uid]);
    }
    const all = [...users].map(([emoji, users2]) => ({ emoji, users: users2 }));
    this.#shown.update(all.sort((a, b) => b.users.length - a.users.length));
  }
  #reaction(emoji) {
    const node = button("", {}, () => this.#toggle(emoji));
    const update = ({ users }) => {
      setText(node, `${emoji} ${users.length}`);
      node.setAttribute("aria-pressed", String(users.includes(this.session.uid)));
    };
    return { node, update };
  }
  #toggle(emoji) {
    this.#offer(false);
    const { session, mid } = this;
    const body = { emoji: emoji === this.#own ? "" : emoji };
    void session.changeMessage(
      mid,
      "No reaction",
      (of) => session.ingest.post("/v1/reactions", {}, { ...of, ...body })
    );
  }
  #offer(isOffered) {
    this.#offered.hidden = !isOffered;
    this.#choose.setAttribute("aria-expanded", String(isOffered));
  }
};

// src/message-list.ts
var PAGE2 = 50;
var MessageList = class {
  constructor(session, actions) {
    this.session = session;
    this.actions = actions;
    this.#earlier = button(
      "Show earlier messages",
      { class: "earlier" },
      () => {
        const { scrollHeight } = this.#scroll;
        this.#count += PAGE2;
        this.render();
        this.#scroll.scrollTop += this.#scroll.scrollHeight - scrollHeight;
      }
    );
    this.#scroll = element(
      "div",
      {
        class: "scroll",
        tabindex: "0",
        role: "group",
        "aria-label": "Messages"
      },
      this.#earlier,
      this.#list
    );
    this.node = this.#scroll;
    this.#reset(null);
  }
  node;
  #scroll;
  #earlier;
  #list = element("ol", {
    class: "messages",
    "aria-label": "Messages"
  });
  #lines;
  #chat = null;
  #count = PAGE2;
  render() {
    const { shown } = this.session;
    if (shown !== this.#chat) this.#reset(shown);
    const { scrollTop, scrollHeight, clientHeight } = this.#scroll;
    const isAtEnd = scrollTop + clientHeight >= scrollHeight - 40;
    const all = shown === null ? [] : this.#linesOf(shown);
    this.#lines.update(all.slice(-this.#count));
    this.#earlier.hidden = all.length <= this.#count;
    if (isAtEnd) this.#scroll.scrollTop = this.#scroll.scrollHeight;
  }
  #reset(chat) {
    this.#chat = chat;
    this.#count = PAGE2;
    this.#list.replaceChildren();
    this.#lines = new KeyedList(
      this.#list,
      (line) => line.key,
      (line) => this.#row(line)
    );
  }
  #linesOf(key) {
    const chat = this.session.device.chats.get(key);
    const lines = chat === void 0 ? [] : messageLines(chat);
    for (const send of this.session.waiting(key)) {
      lines.push({ type: "waiting", key: `send ${send.clientMsgId}`, send });
    }
    for (const send of this.session.refused(key)) {
      lines.push({ type: "refused", key: `no ${send.clientMsgId}`, send });
    }
    return lines;
  }
  #row(line) {
    switch (line.type) {
      case "message":
        return this.#messageRow(line.message);
      case "waiting":
        return this.#waitingRow(line.send);
      case "refused":
        return this.#refusedRow(line.send);
      case "read": {
        const node = element("li", { class: "read" });
        const update = (now) => {
          if (now.type !== "read") return;
          setText(node, `Read up to here on ${now.classes.join(" and ")}`);
        };
        return { node, update };
      }
    }
  }
  #messageRow(first) {
    const { session, actions } = this;
    const isOwn = first.srcid === session.uid;
    let message = first;
    const isPlain = isOwn || typeof first.gid !== "string";
    const author = element("span", { class: isPlain ? "hidden" : "author" });
    const text = messageText();
    const time = element("time", { datetime: first.ts }, timeText(first.ts));
    const state = element("span", { class: "changed" });
    const edit = button(
      "Edit",
      { class: "quiet" },
      () => actions.edit(message)
    );
    const recall = button(
      "Recall",
      { class: "quiet" },
      () => actions.recall(message)
    );
    const reactions = new Reactions(session, first.mid);
    const does = element("span", { class: "actions" }, edit, recall);
    const parts = [time, state, reactions.node, does];
    const foot = element("div", { class: "foot" }, ...parts);
    const cls = isOwn ? "message own" : "message";
    const data = { "data-mid": String(first.mid) };
    const node = element("li", { class: cls, ...data }, author, text, foot);
    return {
      node,
      update: (line) => {
        if (line.type !== "message") return;
        ({ message } = line);
        const name = isOwn ? "You" : theirs(session.names.of(message.srcid));
        setLine(author, name);
        const isGone = message.recalled === true;
        setText(text, isGone ? "This message was recalled." : message.msg);
        node.classList.toggle("recalled", isGone);
        setText(state, isGone ? "" : message.edited_ts ? "edited" : "");
        reactions.update(message);
        edit.hidden = isGone || !isOwn;
        recall.hidden = isGone || !(isOwn || this.#isAdmin());
      }
    };
  }
  /** Admins of a group recall everybody's messages. */
  #isAdmin() {
    const chat = this.#chat && this.session.device.chats.get(this.#chat);
    const role = chat?.with.type === "group" ? chat.with.role : "member";
    return role !== "member";
  }
  #waitingRow(send) {
    const state = element("span", { class: "state" });
    const node = element(
      "li",
      { class: "message own waiting" },
      element("span", { class: "hidden" }, "You"),
      messageText(send.msg),
      element("div", { class: "foot" }, state)
    );
    const update = () => {
      const { isConnected } = this.session.device;
      setText(state, isConnected ? "Sending" : "Waiting for a connection");
    };
    return { node, update };
  }
  #refusedRow(send) {
    const { reason, detail } = send.refused;
    const why = `Not sent: ${reasonText(reason, detail)}`;
    const again = button(
      "Send again",
      { class: "quiet" },
      () => void this.session.sendAgain(send)
    );
    const remove = button(
      "Remove",
      { class: "quiet" },
      () => void this.session.dismiss(send.clientMsgId)
    );
    const node = element(
      "li",
      { class: "message own refused" },
      element("span", { class: "hidden" }, "You"),
      messageText(send.msg),
      element("div", { class: "foot" }, why, again, remove)
    );
    return { node, update: () => void 0 };
  }
};
function messageText(text = "") {
  return element("p", { class: "text", dir: "auto" }, text);
}
function messageLines(chat) {
  const lines = [];
  const messages = [...chat.messages.values()].sort((a, b) => a.mid - b.mid);
  messages.forEach((message, i) => {
    lines.push({ type: "message", key: `mid ${message.mid}`, message });
    const next = messages[i + 1]?.mid ?? Infinity;
    const classes = DEVICE_CLASSES.filter((cls) => {
      const mid = chat.readMid[cls];
      return message.mid <= mid && mid < next && mid < chat.lastMid;
    });
    if (classes.length === 0 || next === Infinity) return;
    lines.push({ type: "read", key: `read ${message.mid}`, classes });
  });
  return lines;
}

// src/chat-view.ts
var ChatView = class {
  constructor(session, title, back) {
    this.session = session;
    this.#members = button("Members", {}, () => {
      if (session.shown) openMembers(session, this.node, session.shown);
    });
    const status = [this.#presence, this.#about];
    const below = element("div", { class: "status" }, ...status);
    const who = element("div", { class: "grow" }, this.#name, below);
    const toList = button("Back", { class: "back" }, back);
    const bar = element("div", { class: "bar" }, toList, who, this.#members);
    this.#messages = new MessageList(session, {
      recall: (message) => void this.#change(message, "recall"),
      edit: (message) => this.#composer.edit(message)
    });
    this.#composer = new Composer(
      (text) => this.#send(text),
      (message, text) => this.#change(message, "edit", text),
      () => session.types()
    );
    const { node } = this.#composer;
    const parts = [bar, this.#messages.node, this.#typing, node];
    this.#open = element("div", { class: "open" }, ...parts);
    const label = `${title}: conversation`;
    const attributes = { class: "view", "aria-label": label };
    this.node = element("section", attributes, this.#hint, this.#open);
  }
  node;
  #name = element("h3", {});
  #about = element("p", { class: "about" });
  #presence = element("p", { class: "presence" });
  #typing = element("p", { class: "typing" });
  #members;
  #messages;
  #composer;
  #hint = element("p", { class: "hint" }, "Choose a conversation.");
  #open;
  render() {
    const { shown } = this.session;
    this.#open.hidden = shown === null;
    this.#hint.hidden = shown !== null;
    if (shown === null) return this.#messages.render();
    const name = chatName(this.session, shown);
    setLine(this.#name, theirs(name));
    setText(this.#about, this.#aboutText(shown));
    this.#showPresence(shown);
    setLine(this.#typing, ...typingLine(this.session, shown));
    const chat = this.session.device.chats.get(shown);
    this.#members.hidden = chat?.with.type !== "group" || chat.with.dissolved;
    this.#composer.show(shown, name);
    this.#messages.render();
  }
  focus() {
    this.#composer.focus();
  }
  #showPresence(key) {
    const [kind, id] = splitKey(key);
    const isOther = kind === "user" && id !== this.session.uid;
    const presence = isOther ? this.session.activity.presence(id) : null;
    this.#presence.hidden = presence === null;
    if (presence === null) return;
    const { online, classes, lastSeen } = presence;
    const seen = lastSeen === null ? "" : `, last seen ${timeText(lastSeen)}`;
    const text = online ? `Online on ${classes.join(" and ")}` : `Away${seen}`;
    setText(this.#presence, text);
    this.#presence.dataset["state"] = online ? "online" : "away";
  }
  #aboutText(key) {
    const chat = this.session.device.chats.get(key);
    if (chat === void 0) return "Nothing yet";
    const { pc, mobile } = chat.unread;
    const isRead = pc === 0 && mobile === 0;
    const unread = isRead ? "Everything is read" : `Unread: ${countsText(chat)}`;
    if (chat.with.type === "user") {
      return chat.with.flags.blocked ? `${unread}. Blocked` : unread;
    }
    const { memberCount, dissolved } = chat.with;
    return dissolved ? "This group has ended" : `${memberCount} members. ${unread}`;
  }
  async #send(text) {
    const { shown } = this.session;
    return shown === null ? false : this.session.send(shown, text);
  }
  async #change(message, kind, msg) {
    const { session } = this;
    const failure = kind === "recall" ? "Not recalled" : "Not edited";
    return session.changeMessage(message.mid, failure, (of) => {
      const body = msg === void 0 ? { ...of, kind } : { ...of, kind, msg };
      return session.ingest.post("/v1/message-changes", {}, body);
    });
  }
};
function typingLine(session, chat) {
  const typists = session.activity.typists(chat);
  const [one, two, ...more] = typists.map((uid) => session.names.of(uid));
  if (one === void 0) return [];
  if (two === void 0) return [theirs(one), " is typing…"];
  return more.length > 0 ? [`${typists.length} people are typing…`] : [theirs(one), " and ", theirs(two), " are typing…"];
}

// src/device-view.ts
var NOT_STORED = "Without https nothing is stored, so a reload loses it";
var RENDER_MS = 16;
var DeviceView = class {
  constructor(session, title, leave) {
    this.session = session;
    this.title = title;
    this.#network = button(
      "Network",
      { role: "switch" },
      () => session.switchNetwork()
    );
    const close = button(
      "Close",
      { title: "It comes back with what it knew" },
      () => leave(() => session.close())
    );
    const forget = button(
      "Forget",
      { title: "Delete what this device knows and has not sent" },
      () => leave(() => session.forget())
    );
    const who = element("div", { class: "grow" }, this.#user, this.#state);
    const tools = element(
      "div",
      { class: "tools" },
      this.#network,
      close,
      forget
    );
    const bar = element("div", { class: "bar" }, who, tools);
    const dismiss = button(
      "Dismiss",
      { class: "quiet" },
      () => session.tell("")
    );
    this.#noticeRow = element(
      "div",
      { class: "notice" },
      this.#notice,
      dismiss
    );
    this.#list = new ChatList(session, (key) => this.open(key));
    this.#chat = new ChatView(session, title, () => this.#back());
    const list = this.#listWithButtons();
    const columns = element("div", { class: "columns" }, list, this.#chat.node);
    const parts = [bar, this.#problem, this.#noticeRow, columns, this.#said];
    this.node = element("div", { class: "device" }, ...parts);
    session.onChange((update) => {
      this.#announce(update);
      this.#renderSoon();
    });
    this.render();
  }
  node;
  #user = element("h2", {});
  #state = element("p", { class: "connection" });
  #problem = element("p", { class: "problem" });
  #notice = element("p", { class: "grow", role: "alert" });
  #noticeRow;
  #network;
  /** For screen readers. */
  #said = element("p", { class: "hidden", role: "status" });
  #list;
  #chat;
  #isRendering = false;
  /** Whose typing was said, until a message comes. */
  #saidTyping = "";
  /** Opens a chat, and goes there. */
  open(key) {
    this.session.shown = key;
    this.render();
    this.#chat.focus();
  }
  render() {
    const { session } = this;
    const { uid, cls } = session.user;
    const name = session.names.of(uid);
    const number = name.endsWith(uid) ? "" : ` (${uid})`;
    setLine(this.#user, theirs(name), number);
    const { text, state } = this.#connection();
    setText(this.#state, `${cls}: ${text}`);
    this.#state.dataset["state"] = state;
    const isAway = state === "connecting" || state === "ended";
    setText(this.#problem, this.#problemText(isAway));
    setText(this.#notice, session.notice);
    this.#noticeRow.hidden = session.notice === "";
    this.#network.setAttribute("aria-checked", String(session.network.isOn));
    this.node.classList.toggle("has-chat", session.shown !== null);
    this.#list.render();
    this.#chat.render();
  }
  /** What is wrong at present. */
  #problemText(isAway) {
    const { problem, behind, device } = this.session;
    const stored = device.storageProblem;
    const all = [
      isAway ? problem : "",
      behind,
      stored === null ? "" : `Not stored, so a reload loses it: ${stored}`,
      this.session.isStored ? "" : NOT_STORED
    ];
    return all.filter((text) => text !== "").join(". ");
  }
  #connection() {
    const { device, network, hasEnded } = this.session;
    if (hasEnded) return { text: "ended", state: "ended" };
    if (!network.isOn) return { text: "offline (switched off)", state: "off" };
    return device.isConnected ? { text: "connected", state: "connected" } : { text: "connecting …", state: "connecting" };
  }
  #listWithButtons() {
    const { session } = this;
    const open = (key) => this.open(key);
    const chat = button("New chat", {}, () => openNewChat(this.node, open));
    const group = button(
      "New group",
      {},
      () => openNewGroup(session, this.node, open)
    );
    const label = `${this.title}: conversations`;
    const does = element("div", { class: "does" }, chat, group);
    const parts = [does, this.#list.node];
    return element("nav", { class: "list", "aria-label": label }, ...parts);
  }
  #back() {
    const { shown } = this.session;
    this.session.shown = null;
    this.render();
    const row = this.#list.node.querySelector(`[data-chat="${shown}"]`);
    if (row instanceof HTMLElement) row.focus();
  }
  #renderSoon() {
    if (this.#isRendering) return;
    this.#isRendering = true;
    setTimeout(() => {
      this.#isRendering = false;
      this.render();
    }, RENDER_MS);
  }
  #announce(update) {
    if (update?.type === "connected") this.#say("Connected.");
    if (update?.type === "disconnected") this.#say("Not connected.");
    if (update?.type === "storage" && update.problem !== null)
      this.#say(`Not stored: ${update.problem}`);
    if (update?.type === "refused")
      this.#say(`Not sent: ${reasonText(update.reason, update.detail)}`);
    if (update?.type === "typing") this.#announceTyping(update);
    if (update?.type !== "chat") return;
    if (this.#saidTyping.startsWith(`${update.chat} `)) this.#saidTyping = "";
    const chat = this.session.device.chats.get(update.chat);
    const isOwn = chat?.last?.srcid === this.session.uid;
    if (!chat?.last || isOwn || chat.unread[this.session.user.cls] === 0)
      return;
    this.#say(`${chatName(this.session, update.chat)}: ${chat.last.msg}`);
  }
  /** Once, not every second. */
  #announceTyping({ chat, from }) {
    const key = `${chat} ${from}`;
    if (chat !== this.session.shown || key === this.#saidTyping) return;
    this.#saidTyping = key;
    setLine(this.#said, ...typingLine(this.session, chat));
  }
  /** Tells screen readers. */
  #say(text) {
    setText(this.#said, text);
  }
};
function beginProblem(error) {
  return `This device cannot begin: ${errorText(error)}`;
}

// src/activity.ts
var TYPING_MS2 = 6e3;
var Activity = class {
  constructor(uid, onChange) {
    this.uid = uid;
    this.onChange = onChange;
  }
  #typing = /* @__PURE__ */ new Map();
  #presence = null;
  take(update) {
    if (update.type === "presence") this.#presence = update;
    if (update.type === "disconnected") {
      this.#presence = null;
      this.#typing.clear();
    }
    if (update.type !== "typing" || update.from === this.uid) return;
    const { chat, from } = update;
    const typing = this.#typing.get(chat) ?? /* @__PURE__ */ new Map();
    this.#typing.set(chat, typing.set(from, Date.now() + TYPING_MS2));
    setTimeout(this.onChange, TYPING_MS2 + 1);
  }
  /** Whoever types sends what was typed. */
  sent(chat, from) {
    this.#typing.get(chat)?.delete(from);
  }
  /** Who types in a chat. */
  typists(chat) {
    const now = Date.now();
    const typing = [...this.#typing.get(chat) ?? []];
    return typing.filter(([, until]) => until > now).map(([uid]) => uid);
  }
  /** Whether a user is there; `null` where that is not known. */
  presence(uid) {
    const { uid: known, online } = this.#presence ?? {};
    return known === uid && online !== null ? this.#presence : null;
  }
};

// src/names.ts
var BATCH = 100;
var WAIT_MS = 50;
var Names = class {
  constructor(query, onChange) {
    this.query = query;
    this.onChange = onChange;
  }
  #nicks = /* @__PURE__ */ new Map();
  #wanted = /* @__PURE__ */ new Set();
  #isAsking = false;
  /** The nick, where there is one; otherwise the number. */
  of(uid) {
    const nick = this.#nicks.get(uid);
    if (nick === void 0) this.#want(uid);
    return nick ?? `User ${uid}`;
  }
  #want(uid) {
    this.#nicks.set(uid, null);
    this.#wanted.add(uid);
    if (this.#isAsking) return;
    this.#isAsking = true;
    setTimeout(() => void this.#ask(), WAIT_MS);
  }
  async #ask() {
    const uids = [...this.#wanted].slice(0, BATCH);
    for (const uid of uids) this.#wanted.delete(uid);
    const more = this.#wanted.size > 0;
    try {
      const query = { uid: uids };
      const { profiles } = await this.query.get("/v1/profiles", {}, query);
      for (const [uid, { nick }] of Object.entries(profiles)) {
        this.#nicks.set(uid, nick);
      }
      this.onChange();
    } catch {
      for (const uid of uids) this.#nicks.delete(uid);
    }
    if (more) setTimeout(() => void this.#ask(), WAIT_MS);
    else this.#isAsking = false;
  }
};

// src/network.ts
var Network = class {
  fetch;
  WebSocket;
  #sockets = /* @__PURE__ */ new Set();
  /** Aborted while it is switched off. */
  #calls = new AbortController();
  constructor() {
    const network = this;
    this.fetch = (input, init) => network.#fetch(input, init);
    this.WebSocket = class extends WebSocket {
      constructor(url, protocols) {
        super(url, protocols);
        network.#add(this);
      }
    };
  }
  get isOn() {
    return !this.#calls.signal.aborted;
  }
  /** Ends what is under way, and lets nothing new through. */
  switchOff() {
    this.#calls.abort(new TypeError("the network is switched off"));
    for (const socket of this.#sockets) socket.close();
  }
  switchOn() {
    this.#calls = new AbortController();
  }
  #fetch(input, init = {}) {
    const { signal } = this.#calls;
    const both = init.signal ? AbortSignal.any([signal, init.signal]) : signal;
    return fetch(input, { ...init, signal: both });
  }
  #add(socket) {
    if (!this.isOn) return socket.close();
    this.#sockets.add(socket);
    socket.addEventListener("close", () => this.#sockets.delete(socket));
  }
};

// src/slots.ts
var SLOTS = 8;
async function takeSlot(uid, cls) {
  if (navigator.locks === void 0) return passing(cls);
  for (let number = 1; number <= SLOTS; number += 1) {
    const name = `tidemark-${uid}-${cls}-${number}`;
    const release = await lock(name);
    if (release === null) continue;
    const storage = new IndexedDbStorage(name);
    const forget = async () => {
      storage.close();
      try {
        await deleted(name);
        localStorage.removeItem(name);
      } finally {
        release();
      }
    };
    const close = () => {
      storage.close();
      release();
    };
    return { id: deviceId(name, cls), storage, release: close, forget };
  }
  throw new Error(`${SLOTS} devices of this user and kind are open already`);
}
function passing(cls) {
  const forget = async () => void 0;
  return { id: newDeviceId(cls), storage: null, release: () => void 0, forget };
}
function lock(name) {
  return new Promise((resolve, reject) => {
    const options = { ifAvailable: true };
    const held = navigator.locks.request(name, options, (taken) => {
      if (taken === null) return resolve(null);
      return new Promise((release) => resolve(release));
    });
    held.catch(reject);
  });
}
function deviceId(name, cls) {
  const stored = localStorage.getItem(name);
  if (stored !== null) return stored;
  const made = newDeviceId(cls);
  localStorage.setItem(name, made);
  return made;
}
function newDeviceId(cls) {
  return `${cls}-${newId().slice(0, 8)}`;
}
function deleted(name) {
  return new Promise((resolve, reject) => {
    const request = indexedDB.deleteDatabase(name);
    request.onsuccess = () => resolve();
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error("another page of this browser uses what is stored"));
  });
}

// src/session.ts
var RETRY_MS4 = 500;
var Session = class _Session {
  constructor(settings, user, slot, network, device) {
    this.user = user;
    this.slot = slot;
    this.network = network;
    this.device = device;
    const { token } = user;
    const { fetch: fetch2 } = network;
    const called = { fetch: fetch2, token };
    this.ingest = new Service({ url: settings.ingest, ...called });
    this.query = new Service({ url: settings.query, ...called });
    this.names = new Names(this.query, () => this.#changed(null));
    this.activity = new Activity(user.uid, () => this.#changed(null));
    void this.#follow();
  }
  names;
  ingest;
  query;
  activity;
  /** Why there is no connection. */
  problem = "";
  /** Why messages of the chat that is open are not here. */
  behind = "";
  /** What the user has tried last and could not do. */
  notice = "";
  /** The device has ended, and does not come back by itself. */
  hasEnded = false;
  #shown = null;
  #isCompleting = false;
  #read = /* @__PURE__ */ new Map();
  #listeners = /* @__PURE__ */ new Set();
  static async open(settings, user) {
    const slot = await takeSlot(user.uid, user.cls);
    try {
      const network = new Network();
      const { uid, cls, token } = user;
      const device = await Device.open({
        uid,
        device: { id: slot.id, class: cls, name: "chat in a browser" },
        gateways: [location.origin.replace(/^http/, "ws")],
        query: settings.query,
        maxMsgBytes: settings.max_msg_bytes,
        WebSocket: network.WebSocket,
        fetch: network.fetch,
        ...slot.storage === null ? {} : { storage: slot.storage },
        ...token === void 0 ? {} : { token }
      });
      return new _Session(settings, user, slot, network, device);
    } catch (error) {
      slot.release();
      throw error;
    }
  }
  /** Calls back for each update of the device, and with `null` for anything else that is shown. */
  onChange(listener) {
    this.#listeners.add(listener);
  }
  /** What is sent is kept over a reload. */
  get isStored() {
    return this.slot.storage !== null;
  }
  get uid() {
    return this.user.uid;
  }
  /** The chat that is open. What is missing of it is fetched, and it is read as long as the page is visible. */
  get shown() {
    return this.#shown;
  }
  set shown(chat) {
    if (!this.hasEnded) this.device.focus(chat);
    this.#shown = chat;
    this.behind = "";
    this.tell("");
    void this.complete();
  }
  /** Does something for the user; whether it was done. Why not is shown until he does something else. */
  async attempt(failure, work) {
    this.tell("");
    try {
      const done = work();
      this.#changed(null);
      await done;
      return true;
    } catch (error) {
      this.tell(`${failure}: ${errorText(error)}`);
      return false;
    }
  }
  /** Changes a message of the chat that is open, and waits until the log has decided; whether it was done. */
  async changeMessage(mid, failure, post) {
    if (this.#shown === null) return false;
    const [kind, id] = splitKey(this.#shown);
    const to = kind === "group" ? { gid: id } : { peer: id };
    return this.attempt(failure, async () => {
      const accepted = await post({ by: this.uid, mid, ...to });
      await awaitOutcome(this.query, accepted);
    });
  }
  /** Sends a message; whether it is in the queue. */
  send(chat, msg) {
    return this.attempt("Not sent", () => this.device.send(chat, msg));
  }
  /** Sends the text of a message that was refused. */
  async sendAgain({ chat, msg, clientMsgId }) {
    if (await this.send(chat, msg)) await this.dismiss(clientMsgId);
  }
  /** Forgets a send that was refused. */
  async dismiss(clientMsgId) {
    await this.attempt("Not removed", () => this.device.dismiss(clientMsgId));
  }
  /** The user types in the chat that is open. */
  types() {
    if (this.#shown !== null && !this.hasEnded) this.device.typing(this.#shown);
  }
  /** Sends of a chat that were refused. */
  refused(chat) {
    return this.device.refused.filter((item) => item.chat === chat);
  }
  /** What waits for an answer, oldest first. A message that is here already may be answered a moment later. */
  waiting(chat) {
    const isSend = (item) => item.kind === "send";
    const sends = this.device.unanswered.filter(isSend);
    const messages = this.device.chats.get(chat)?.messages.values() ?? [];
    const here = new Set(Array.from(messages, (one) => one.client_msg_id));
    return sends.filter(
      (item) => item.chat === chat && !here.has(item.clientMsgId)
    );
  }
  /** Shows what could not be done, or nothing any more. */
  tell(notice) {
    this.notice = notice;
    this.#changed(null);
  }
  /** Switches the device's network. What waits goes out at once when it is on again. */
  switchNetwork() {
    if (this.network.isOn) this.network.switchOff();
    else {
      this.network.switchOn();
      this.device.connectNow();
    }
    this.#changed(null);
  }
  /** Ends the device. It comes back with what it knew. */
  async close() {
    await this.device.close();
    this.slot.release();
  }
  /** Ends the device, and deletes what it knew and what it has not sent. */
  async forget() {
    await this.device.close();
    await this.slot.forget();
  }
  /** Fetches what is missing of the chat that is shown; then the user has read it. */
  async complete() {
    const key = this.#shown;
    const chat = key && this.device.chats.get(key);
    if (!chat || this.#isCompleting || this.hasEnded) return;
    if (missing(chat) !== null) {
      if (this.device.isConnected) await this.#fetch(chat.key);
      return;
    }
    await this.#readUpTo(chat);
  }
  async #fetch(key) {
    this.#isCompleting = true;
    try {
      await this.device.fetch(key);
      this.behind = "";
    } catch (error) {
      this.behind = `Not all messages are here: ${errorText(error)}`;
    }
    this.#changed(null);
    this.#isCompleting = false;
    const chat = this.device.chats.get(key);
    const isBehind = chat !== void 0 && missing(chat) !== null;
    if (isBehind) setTimeout(() => void this.complete(), RETRY_MS4);
    else await this.complete();
  }
  async #readUpTo(chat) {
    const isOwn = chat.key === `user:${this.uid}`;
    const isUnread = chat.lastMid > 0 && chat.unread[this.user.cls] !== 0;
    const isNew = this.#read.get(chat.key) !== chat.lastMid;
    const isVisible = document.visibilityState === "visible";
    if (isOwn || !isUnread || !isNew || !isVisible) return;
    this.#read.set(chat.key, chat.lastMid);
    await this.device.read(chat.key, chat.lastMid);
  }
  async #follow() {
    try {
      for await (const update of this.device.updates()) {
        this.#take(update);
        this.#changed(update);
        void this.complete();
      }
    } catch (error) {
      this.problem = errorText(error);
    }
    this.hasEnded = true;
    this.#changed(null);
  }
  #take(update) {
    if (update.type === "connected") this.problem = "";
    if (update.type === "disconnected") this.problem = update.reason;
    this.activity.take(update);
    if (update.type !== "chat") return;
    const last = this.device.chats.get(update.chat)?.last;
    if (last) this.activity.sent(update.chat, last.srcid);
  }
  #changed(update) {
    for (const listener of this.#listeners) listener(update);
  }
};

// src/sign-in.ts
var USERS = [
  ["1000", "has mail from 1001"],
  ["1001", "writes to 1000"],
  ["1002", "has pinned Ann"],
  ["1003", "Ann, who edits and recalls"],
  ["1004", "owns the group Harbour"],
  ["1005", "is in Harbour"],
  ["1006", "is in Harbour, and behind"]
];
var SignIn = class {
  constructor(title, authenticates, cls, open) {
    this.open = open;
    for (const [value, text] of [
      ["pc", "a computer (pc)"],
      ["mobile", "a telephone (mobile)"]
    ]) {
      this.#class.append(
        element("option", { value, selected: value === cls }, text)
      );
    }
    const kind = element("label", {}, "This device is", this.#class);
    const who = authenticates ? this.#withToken() : this.#withNumber();
    const heading = element("h2", {}, title);
    const parts = [heading, kind, ...who, this.#problem];
    this.node = element("div", { class: "sign-in" }, ...parts);
  }
  node;
  #class = element("select", {});
  #problem = element("p", { class: "problem", role: "alert" });
  /** Says why a device did not begin. */
  say(problem) {
    this.#problem.textContent = problem;
  }
  #withNumber() {
    const users = element("ul", { class: "users" });
    for (const [uid2, about] of USERS) {
      const one = button(uid2, { class: "user" }, () => this.#begin({ uid: uid2 }));
      one.append(element("span", { class: "about" }, about));
      users.append(element("li", {}, one));
    }
    const uid = uidField("Or any other number");
    const form = this.#form(
      uid.row,
      () => this.#begin({ uid: uid.input.value })
    );
    const hint = "Choose a user of the demo. Each device has a storage of its own.";
    return [element("p", { class: "hint" }, hint), users, form];
  }
  #withToken() {
    const token = field("Bearer token of the user (a JWT)", {
      type: "password",
      required: true
    });
    const form = this.#form(token.row, () => {
      const text = token.input.value.trim();
      const uid = subjectOf(text);
      if (uid === null) this.say("That is no token with a user's number.");
      else this.#begin({ uid, token: text });
    });
    return [form];
  }
  #form(row, submit) {
    const go = element("button", { type: "submit", class: "primary" }, "Begin");
    const form = element("form", {}, row, go);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      submit();
    });
    return form;
  }
  #begin(who) {
    this.say("");
    const cls = this.#class.value === "mobile" ? "mobile" : "pc";
    void this.open({ ...who, cls });
  }
};
function subjectOf(token) {
  const [, payload = ""] = token.split(".");
  try {
    const text = atob(payload.replaceAll("-", "+").replaceAll("_", "/"));
    const { sub } = JSON.parse(text);
    return typeof sub === "string" && isUid(sub) ? sub : null;
  } catch {
    return null;
  }
}

// src/place.ts
var Place = class {
  constructor(settings, title, cls, onChange) {
    this.settings = settings;
    this.title = title;
    this.cls = cls;
    this.onChange = onChange;
    const attributes = { class: "place", "aria-label": title };
    this.node = element("section", attributes);
    this.#showForm();
  }
  node;
  #session = null;
  #form;
  /** Who uses the device; `null` before anybody does. */
  get user() {
    return this.#session?.user ?? null;
  }
  /** Begins a device. */
  async begin(user) {
    try {
      const session = await Session.open(this.settings, user);
      this.#session = session;
      const view = new DeviceView(
        session,
        this.title,
        (work) => void this.#leave(work)
      );
      this.node.replaceChildren(view.node);
      view.node.querySelector("button")?.focus();
    } catch (error) {
      this.#form.say(beginProblem(error));
    }
    this.onChange();
  }
  /** Ends the device, if there is one. It comes back with what it knew. */
  async close() {
    const session = this.#session;
    if (session !== null) await this.#leave(() => session.close());
  }
  async #leave(work) {
    this.#session = null;
    this.onChange();
    const problem = await work().then(() => "", errorText);
    this.#showForm();
    this.#form.say(problem);
  }
  #showForm() {
    const { authenticates } = this.settings;
    const begin = (user) => this.begin(user);
    this.#form = new SignIn(this.title, authenticates, this.cls, begin);
    this.node.replaceChildren(this.#form.node);
  }
};

// src/settings.ts
async function readSettings() {
  const response = await fetch("/page/settings.json");
  if (!response.ok) throw new Error(`the gateway answers ${response.status}`);
  return await response.json();
}

// src/main.ts
function show(settings, main, toggle) {
  const { users, problem } = devicesOf(location.hash);
  const wrong = element("p", { class: "problem", role: "alert" });
  main.before(wrong);
  const remember = () => {
    const all = [first, second].flatMap(({ user }) => user ?? []);
    const open = all.filter(({ token }) => token === void 0);
    history.replaceState(null, "", addressOf(open));
    wrong.textContent = "";
  };
  const first = new Place(settings, "First device", "pc", remember);
  const second = new Place(settings, "Second device", "mobile", remember);
  main.replaceChildren(first.node, second.node);
  const showSecond = (isShown) => {
    second.node.hidden = !isShown;
    toggle.setAttribute("aria-pressed", String(isShown));
    document.body.classList.toggle("two", isShown);
  };
  toggle.addEventListener("click", () => {
    const isShown = second.node.hidden === false;
    showSecond(!isShown);
    if (isShown) void second.close();
  });
  showSecond(users.length > 1);
  if (settings.authenticates) {
    if (location.hash !== "") {
      wrong.textContent = "Here a device begins with a token: the address does not name it.";
    }
    return;
  }
  const [one, two] = users;
  void (async () => {
    if (one !== void 0) await first.begin(one);
    if (two !== void 0) await second.begin(two);
    wrong.textContent = problem;
  })();
  addEventListener("hashchange", () => location.reload());
}
async function start() {
  const main = document.querySelector("#devices");
  const toggle = document.querySelector("#second");
  if (main === null || toggle === null)
    throw new Error("the page is not whole");
  try {
    show(await readSettings(), main, toggle);
  } catch (error) {
    const attributes = { class: "problem", role: "alert" };
    main.replaceChildren(
      element("p", attributes, `The page cannot begin: ${String(error)}`)
    );
  }
}
void start();
