import assert from "node:assert/strict";
import {
  afterEach,
  beforeEach,
  test as nodeTest,
  type TestContext,
} from "node:test";
import {
  Device,
  MemoryStorage,
  StorageEmptied,
  type ChatKey,
  type DeviceSettings,
  type StorageChanges,
  type StoredDevice,
  type Update,
} from "../src/index.js";
import type { ClientFrame, ServerFrame } from "../src/frames.js";
import type { SyncAnswer } from "../src/rest.js";
import { Pauses } from "../src/link.js";
import { SyncToken } from "../src/token.js";
import {
  ScriptedGateway,
  type ScriptedConnection,
} from "./scripted-gateway.js";
import { GROUP, groupMessage, membership } from "./state-fixture.js";
import { readVector } from "./vectors-folder.js";

/** What a test waits for comes within a few seconds, or never. */
const test = (name: string, run: (t: TestContext) => Promise<void>) =>
  nodeTest(name, { timeout: 10_000 }, run);

const ME = "1000";
const PEER: ChatKey = "user:1001";
const TOKEN = SyncToken.of(1, () => 10).toString();
const WELCOME = {
  type: "welcome",
  resumed: true,
  token: TOKEN,
  frames_per_s: 50,
  bytes_per_s: 262_144,
} as const;

let gateway: ScriptedGateway;
let device: Device | null = null;
/** What the query API is asked for, and how it answers. */
let asked: string[];
let answers: (() => Response | Promise<Response>)[];

beforeEach(async () => {
  gateway = await ScriptedGateway.start();
  asked = [];
  answers = [];
});

afterEach(async () => {
  await device?.close();
  device = null;
  gateway.stop();
});

function synced(more: Partial<SyncAnswer> = {}): Response {
  const rows = { conversations: [], groups: [], left: [] };
  const end = { next: TOKEN, more: false, full: true };
  return Response.json({ ...rows, ...end, ...more });
}

async function open(more: Partial<DeviceSettings> = {}): Promise<Device> {
  device = await Device.open({
    uid: ME,
    device: { id: "phone-1", class: "mobile" },
    gateways: [gateway.url],
    query: "http://query",
    fetch: (url, init) => {
      asked.push(String(url));
      const answer = answers.shift()?.() ?? synced();
      const closed = new Promise<never>((_, reject) =>
        init!.signal!.addEventListener("abort", reject),
      );
      return Promise.race([answer, closed]);
    },
    ...more,
  });
  return device;
}

/** Accepts a connection, and says welcome to what it has. */
async function welcome(): Promise<ScriptedConnection> {
  const connection = await gateway.accept();
  const hello = await connection.next();
  assert.equal(hello?.type, "hello");
  if (hello?.type === "hello" && hello.since === null) {
    connection.send({ type: "sync_required", after_ms: 0 });
    const resume: ClientFrame = { type: "resume", since: TOKEN };
    assert.deepEqual(await connection.next(), resume);
  }
  connection.send(WELCOME);
  return connection;
}

async function until(
  updates: AsyncIterableIterator<Update>,
  type: Update["type"],
): Promise<Update> {
  for (;;) {
    const { value } = await updates.next();
    if (value === undefined) assert.fail(`ended before ${type}`);
    if (value.type === type) return value;
  }
}

function event(offset: number, mid: number) {
  const text = { msg: `text ${mid}`, ts: "", client_msg_id: `id-${mid}` };
  const message = { mid, n: mid, srcid: "1001", destid: ME, ...text };
  return { type: "event", at: `17:${offset}`, message } as const;
}

test("a device syncs, resumes, and has what comes", async () => {
  const { chats, updates } = await open().then((device) => ({
    chats: device.chats,
    updates: device.updates(),
  }));
  const connection = await welcome();
  assert.equal(connection.target, `/v1/connect?uid=${ME} tidemark.v1.json`);
  assert.deepEqual(asked, [`http://query/v1/users/${ME}/sync`]);
  await until(updates, "connected");
  connection.send(event(9, 1));
  connection.send(event(10, 1));
  assert.deepEqual(await until(updates, "chat"), { type: "chat", chat: PEER });
  assert.deepEqual(chats.get(PEER)?.unread, { pc: 1, mobile: 1 });
  const token = SyncToken.of(1, () => 20).toString();
  connection.send({ type: "ping", token });
  assert.deepEqual(await connection.next(), { type: "pong" });
  connection.send(event(19, 2));
  connection.send(event(20, 3));
  await until(updates, "chat");
  assert.deepEqual([...chats.get(PEER)!.messages.keys()], [1, 3]);
});

test("a connection that is lost is made again, from the token on", async () => {
  const { updates } = await open().then((device) => ({
    updates: device.updates(),
  }));
  const first = await welcome();
  first.send(event(12, 1));
  await until(updates, "chat");
  first.destroy();
  await until(updates, "disconnected");
  const second = await gateway.accept();
  const hello = await second.next();
  assert.ok(hello?.type === "hello" && typeof hello.since === "string");
  assert.equal(SyncToken.parse(hello.since).get(17), 13);
});

test("a send goes out again until it is answered", async () => {
  const storage = new MemoryStorage();
  const offline = await open({ storage });
  await offline.send(PEER, "one", "a");
  await offline.read(PEER, 3);
  await offline.close();
  // Another life of the program.
  const again = await open({ storage });
  const updates = again.updates();
  const first = await welcome();
  const send = { type: "send", ref: "1", client_msg_id: "a", msg: "one" };
  assert.deepEqual(await first.next(), { ...send, to: "1001" });
  const read = { type: "read", ref: "2", peer: "1001", mid: 3 };
  assert.deepEqual(await first.next(), read);
  first.send({ type: "accepted", ref: "2", at: "17:4" });
  first.send({ type: "accepted", ref: "1", at: "17:3" });
  first.send({ type: "ping", token: TOKEN });
  assert.deepEqual(await first.next(), { type: "pong" });
  first.destroy();
  const second = await welcome();
  assert.deepEqual(await second.next(), { ...send, to: "1001" });
  second.send({ type: "sent", ref: "1", mid: 7 });
  const sent = { type: "sent", chat: PEER, clientMsgId: "a", mid: 7 };
  assert.deepEqual(await until(updates, "sent"), sent);
  assert.deepEqual(again.unanswered, []);
  await again.close();
  assert.deepEqual((await storage.load()).queue, []);
});

test("a send that is refused is done, and one refused for now is not", async () => {
  const own = await open();
  const updates = own.updates();
  const connection = await welcome();
  await until(updates, "connected");
  await own.send(PEER, "one", "a");
  await connection.next();
  const busy = { reason: "too-many-under-way", retry: true };
  connection.send({ type: "refused", detail: "", ref: "1", ...busy });
  const again = await connection.next();
  assert.equal(again?.type === "send" && again.client_msg_id, "a");
  const refusal = { reason: "blocked", detail: "1001 has blocked 1000" };
  connection.send({ type: "refused", ref: "1", ...refusal });
  const ids = { chat: PEER, clientMsgId: "a" };
  const refused = { type: "refused", ...ids, ...refusal };
  assert.deepEqual(await until(updates, "refused"), refused);
  assert.deepEqual(own.unanswered, []);
  assert.equal(own.refused[0]?.msg, "one");
  await own.dismiss("a");
  assert.deepEqual(own.refused, []);
});

/** As of a gateway without Kafka, which comes back: `one` is refused for now, and `two` would not be. */
test("a send that is refused for now goes out again before those behind it", async () => {
  const own = await open();
  const updates = own.updates();
  const connection = await welcome();
  await until(updates, "connected");
  await own.send(PEER, "one", "a");
  await own.send(PEER, "two", "b");
  await own.send(GROUP, "elsewhere", "c");
  const texts: unknown[] = [];
  const next = async (): Promise<void> => {
    const frame = await connection.next();
    texts.push(frame?.type === "send" ? frame.msg : frame?.type);
  };
  await next();
  await next();
  const busy = { reason: "unavailable", detail: "", retry: true };
  connection.send({ type: "refused", ref: "1", ...busy });
  await next();
  connection.send({ type: "ping", token: TOKEN });
  await next();
  connection.send({ type: "accepted", ref: "1", at: "17:1" });
  await next();
  assert.deepEqual(texts, ["one", "elsewhere", "one", "pong", "two"]);
});

test("a device that is told not to come back does not", async () => {
  const updates = (await open()).updates();
  const connection = await welcome();
  connection.send({ type: "replaced" });
  connection.close(4101, "another connection has taken its place");
  await assert.rejects(until(updates, "refused"), /has taken its place/);
  const own = device!;
  await assert.rejects(own.send(PEER, "one"), /has taken its place/);
  await assert.rejects(own.fetch(PEER), /has taken its place/);
  assert.equal(gateway.handshakes, 1);
});

test("a device comes back with a new token where the old one has expired", async () => {
  let tokens = 0;
  const token = () => `t${(tokens += 1)}`;
  await open({ token });
  const first = await welcome();
  const target = /^\/v1\/connect\?uid=1000 tidemark.v1.json, ?bearer.t1$/;
  assert.match(first.target, target, "the key of a service is nobody's");
  first.close(4005, "the token has expired");
  const second = await welcome();
  assert.match(second.target, /bearer.t3$/);
});

test("a token may be a text", async () => {
  await open({ token: "t0" });
  assert.match((await welcome()).target, /bearer.t0$/);
});

test("a token of characters that a subprotocol has not is encoded", async () => {
  for (const [token, offered] of [
    ["a/b==", "bearer.base64url.YS9iPT0"],
    ["base64url.x", "bearer.base64url.YmFzZTY0dXJsLng"],
    ["a.b~c+d-e_f", "bearer.a.b~c+d-e_f"],
  ] as const) {
    const own = await open({ token });
    const { target } = await welcome();
    assert.ok(target.endsWith(offered), target);
    await own.close();
  }
});

test("a function that returns no token is named", async () => {
  const updates = (await open({ token: () => 5 as never })).updates();
  const update = await until(updates, "disconnected");
  const reason = update.type === "disconnected" && update.reason;
  assert.match(String(reason), /token must be a bearer token/);
});

test("a gateway that ends says when to come back, and the next one is tried", async () => {
  const other = await ScriptedGateway.start();
  try {
    const gateways = [gateway.url, other.url];
    const updates = (await open({ gateways })).updates();
    const connection = await welcome();
    connection.send({ type: "reconnect", after_ms: 0 });
    const update = await until(updates, "disconnected");
    assert.deepEqual(update, {
      type: "disconnected",
      reason: "the gateway ends",
    });
    assert.equal((await (await other.accept()).next())?.type, "hello");
  } finally {
    other.stop();
  }
});

test("a device that is told that the network is back does not wait", async () => {
  const waiting = await open();
  const connection = await welcome();
  const updates = waiting.updates();
  connection.send({ type: "reconnect", after_ms: 60_000 });
  await until(updates, "disconnected");
  waiting.connectNow();
  await welcome();
});

test("handshakes that fail without a word make the device ask over HTTP", async () => {
  gateway.refusal = 401;
  const problem = { status: 401, detail: "the token is not valid" };
  answers = [() => Response.json(problem, { status: 401 })];
  const updates = (await open()).updates();
  const reason = `${gateway.url}/v1/connect?uid=${ME}: the handshake fails`;
  const failed = { type: "disconnected", reason };
  assert.deepEqual(await until(updates, "disconnected"), failed);
  await assert.rejects(until(updates, "connected"), /token is not valid/);
  assert.equal(gateway.handshakes, 1);
  assert.deepEqual(asked, [`http://query/v1/users/${ME}/unread?device=pc`]);
});

const UNAUTHENTICATED = { status: 401, detail: "the token has expired" };
const expired = () => Response.json(UNAUTHENTICATED, { status: 401 });

test("a device asks again why handshakes fail if nobody could say it at first", async () => {
  gateway.refusal = 401;
  answers = [() => Promise.reject(new TypeError("no network")), expired];
  const updates = (await open({ token: "t0" })).updates();
  await assert.rejects(until(updates, "connected"), /token has expired/);
  assert.equal(gateway.handshakes, 4);
});

test("a refused token ends the device if there is no other", async () => {
  gateway.refusal = 401;
  answers = [expired];
  const updates = (await open({ token: () => "t0" })).updates();
  await assert.rejects(until(updates, "connected"), /token has expired/);
  assert.equal(gateway.handshakes, 1);
});

test("a refused token does not end the device if there is another", async () => {
  gateway.refusal = 401;
  let tokens = 0;
  answers = [
    () => {
      gateway.refusal = null;
      tokens += 1;
      return expired();
    },
  ];
  await open({ token: () => `t${tokens}` });
  assert.match((await welcome()).target, /bearer.t1$/);
});

test("a function that has no token yet is asked again", async () => {
  let isThere = false;
  const token = () => {
    if (!isThere) throw new Error("the issuer does not answer");
    return "t0";
  };
  const updates = (await open({ token })).updates();
  const update = await until(updates, "disconnected");
  const reason = update.type === "disconnected" && update.reason;
  assert.match(String(reason), /the issuer does not answer/);
  isThere = true;
  await welcome();
});

test("a sync that fails is tried again on the next connection", async () => {
  answers = [() => Response.json({ status: 503 }, { status: 503 })];
  const updates = (await open()).updates();
  const first = await gateway.accept();
  await first.next();
  first.send({ type: "sync_required", after_ms: 0 });
  await until(updates, "disconnected");
  await welcome();
  await until(updates, "connected");
});

test("a ping without a stream is answered while a sync goes on", async () => {
  await open();
  const connection = await gateway.accept();
  await connection.next();
  connection.send({ type: "sync_required", after_ms: 60_000 });
  connection.send({ type: "ping" });
  assert.deepEqual(await connection.next(), { type: "pong" });
});

/** An answer of the query API that comes when the test says so. */
class LateAnswer {
  come!: (page: object) => void;
  /** It is asked for. */
  readonly asked: Promise<void>;

  constructor() {
    const page = new Promise<object>((resolve) => (this.come = resolve));
    this.asked = new Promise((resolve) => {
      answers.push(() => {
        resolve();
        return page.then((page) => Response.json(page));
      });
    });
  }
}

/** Connects a device that is in a group of which it lacks the messages 8 to 10. */
async function openMissing() {
  const own = await open();
  const updates = own.updates();
  const connection = await welcome();
  await until(updates, "connected");
  connection.send({ type: "event", at: "8:11", ...membership("member", true) });
  connection.send(headOf(12, 10, 0));
  await until(updates, "chat");
  await handled(connection);
  asked = [];
  return { own, connection };
}

function headOf(offset: number, mid: number, chg: number) {
  const at = `8:${offset}`;
  const of = { gid: "5000", mid, chg, own_mid: 0 };
  return { type: "head", at, until: at, ...of } as const;
}

/** The device has handled what was sent before. */
async function handled(connection: ScriptedConnection): Promise<void> {
  connection.send({ type: "ping", token: TOKEN });
  assert.deepEqual(await connection.next(), { type: "pong" });
}

/** The messages of the group with these numbers. */
function messages(...mids: number[]): object[] {
  return mids.map((mid) => groupMessage(mid, "1001").message);
}

test("pings are answered while a page is fetched", async () => {
  const { own, connection } = await openMissing();
  const page = new LateAnswer();
  const fetched = own.fetch(GROUP);
  await page.asked;
  connection.send(event(12, 1));
  await handled(connection);
  assert.equal(own.chats.get(PEER)?.lastMid, 1, "a pong says so");
  await handled(connection);
  page.come({ items: messages(8, 9, 10), next: null });
  await fetched;
  assert.deepEqual([...own.chats.get(GROUP)!.messages.keys()], [8, 9, 10]);
  assert.equal(asked.length, 1, "the page is of another chat than the event");
});

test("a page that is older than what was handled is asked for again", async () => {
  const { own, connection } = await openMissing();
  const [page, again] = [new LateAnswer(), new LateAnswer()];
  const fetched = own.fetch(GROUP);
  await page.asked;
  connection.send(headOf(14, 11, 1));
  await handled(connection);
  await again.asked;
  page.come({ items: messages(8, 9, 10), next: null });
  answers.push(() => Response.json({ items: [], next: null }));
  again.come({ items: messages(8, 9, 10, 11), next: null });
  await fetched;
  assert.deepEqual([...own.chats.get(GROUP)!.messages.keys()], [8, 9, 10, 11]);
  assert.notEqual(asked[0], asked[1], "it has to reflect the head");
});

test("who leaves a group and joins it again between two pages fetches it from its beginning", async () => {
  const { own, connection } = await openMissing();
  const first = new LateAnswer();
  const second = new LateAnswer();
  const again = new LateAnswer();
  const fetched = own.fetch(GROUP);
  await first.asked;
  first.come({ items: messages(8), next: "after_mid=8" });
  await second.asked;
  connection.send({ type: "event", at: "8:13", ...membership(null, false) });
  connection.send({ type: "event", at: "8:14", ...membership("member", true) });
  connection.send(headOf(15, 10, 0));
  await handled(connection);
  await again.asked;
  again.come({ items: messages(8, 9, 10), next: null });
  await fetched;
  assert.deepEqual([...own.chats.get(GROUP)!.messages.keys()], [8, 9, 10]);
  const after = asked.map((url) => new URL(url).searchParams.get("after_mid"));
  assert.deepEqual(after, ["0", "8", "0"]);
});

test("all frames that wait have their turn between two pages", async () => {
  const { own, connection } = await openMissing();
  const updates = own.updates();
  const [first, second] = [new LateAnswer(), new LateAnswer()];
  const fetched = own.fetch(GROUP);
  await first.asked;
  for (let mid = 1; mid <= 3; mid += 1) connection.send(event(11 + mid, mid));
  // There is no stream that this could wait for, so it shows that the events have arrived.
  connection.send({ type: "ping" });
  assert.deepEqual(await connection.next(), { type: "pong" });
  assert.equal(own.chats.get(PEER), undefined);
  first.come({ items: messages(8), next: "after_mid=8" });
  await until(updates, "chat");
  await second.asked;
  assert.equal(own.chats.get(PEER)?.lastMid, 3);
  second.come({ items: messages(9, 10), next: null });
  await fetched;
});

test("a device for which too much waits comes back with its token", async () => {
  const { own, connection } = await openMissing();
  const page = new LateAnswer();
  const fetched = own.fetch(GROUP);
  await page.asked;
  const msg = "x".repeat(16_000);
  for (let mid = 1; mid <= 64; mid += 1) {
    const { message, ...at } = event(11 + mid, mid);
    connection.send({ ...at, message: { ...message, msg } });
  }
  assert.equal(await connection.next(), null, "it has closed the connection");
  page.come({ items: messages(8, 9, 10), next: null });
  await fetched;
  const hello = await (await gateway.accept()).next();
  assert.ok(hello?.type === "hello" && typeof hello.since === "string");
  const { lastMid } = own.chats.get(PEER)!;
  assert.equal(SyncToken.parse(hello.since).get(17), 12 + lastMid);
  assert.ok(lastMid > 60, String(lastMid));
});

test("what was refused for now goes out once on the next connection", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const own = await open();
  const updates = own.updates();
  await own.send(PEER, "one", "a");
  const connect = async () => {
    const connection = await gateway.accept();
    assert.equal((await connection.next())?.type, "hello");
    connection.send(WELCOME);
    assert.equal((await connection.next())?.type, "send");
    return connection;
  };
  const first = await connect();
  const busy = { reason: "too-many-under-way", detail: "", retry: true };
  first.send({ type: "refused", ref: "1", ...busy });
  await handled(first);
  first.destroy();
  await until(updates, "disconnected");
  own.connectNow();
  const second = await connect();
  t.mock.timers.tick(1_000);
  await handled(second);
});

test("frames of later versions and of nobody do no harm", async () => {
  const updates = (await open()).updates();
  const connection = await welcome();
  connection.sendText(JSON.stringify({ type: "weather", sky: "blue" }));
  connection.send({ type: "sent", ref: "99", mid: 1 });
  connection.send({ type: "error", detail: "no such frame" });
  const update = await until(updates, "error");
  assert.deepEqual(update, { type: "error", detail: "no such frame" });
  connection.sendText("no JSON");
  await until(updates, "disconnected");
  await welcome();
});

test("a device comes back after frames that cannot be read, and does not hurry", async (t) => {
  t.mock.method(Math, "random", () => 0.5);
  const timers = t.mock.method(globalThis, "setTimeout").mock;
  const updates = (await open()).updates();
  const unreadable = [
    { ...event(11, 1), at: "17" },
    { type: "ping", token: "of a later version" },
    { type: "head", at: null },
  ];
  for (const frame of unreadable) {
    const connection = await welcome();
    await until(updates, "connected");
    connection.sendText(JSON.stringify(frame));
    await until(updates, "disconnected");
  }
  const connection = await welcome();
  const pauses = timers.calls.map((call) => Number(call.arguments[1]));
  assert.ok(pauses.includes(400), String(pauses));
  connection.send(event(11, 1));
  await until(updates, "chat");
});

test("a gateway that welcomes, pings and closes is not hurried", async (t) => {
  t.mock.method(Math, "random", () => 0.5);
  const timers = t.mock.method(globalThis, "setTimeout").mock;
  await open();
  for (let times = 0; times < 4; times += 1) {
    const connection = await welcome();
    await handled(connection);
    connection.close(1001, "away");
  }
  await welcome();
  const pauses = timers.calls.map((call) => Number(call.arguments[1]));
  assert.ok(pauses.includes(800), String(pauses));
});

test("neither is one that ends and asks to come back at once", async (t) => {
  t.mock.method(Math, "random", () => 0.5);
  const timers = t.mock.method(globalThis, "setTimeout").mock;
  await open();
  for (let times = 0; times < 4; times += 1) {
    (await welcome()).send({ type: "reconnect", after_ms: 0 });
  }
  await welcome();
  const pauses = timers.calls.map((call) => Number(call.arguments[1]));
  assert.ok(pauses.includes(800), String(pauses));
});

test("the next pause is a short one once the device gets on", async (t) => {
  const own = await open();
  const connection = await welcome();
  await own.send(PEER, "one", "a");
  await connection.next();
  const resets = t.mock.method(Pauses.prototype, "reset").mock;
  const { frames } = readVector<{
    frames: { gets_on: boolean; frame: ServerFrame }[];
  }>("connection.json");
  for (const { gets_on, frame } of frames) {
    const before = resets.callCount();
    connection.send(frame);
    if (frame.type === "ping") await connection.next();
    await handled(connection);
    const about = JSON.stringify(frame);
    assert.equal(resets.callCount() > before, gets_on, about);
  }
});

/** Ten seconds' worth at once would be too much for it. */
test("a long queue goes out as fast as the gateway says, and no faster", async () => {
  const own = await open();
  for (let n = 0; n < 20; n += 1) await own.send(`user:${2000 + n}`, "text");
  own.focus(PEER);
  const first = await gateway.accept();
  await first.next();
  first.send({ type: "sync_required", after_ms: 0 });
  await first.next();
  const rates = { frames_per_s: 2, bytes_per_s: 100_000 };
  first.send({ type: "welcome", resumed: true, token: TOKEN, ...rates });
  const begun = performance.now();
  const written: (string | undefined)[] = [];
  for (let frame; written.length < 12; written.push(frame?.type)) {
    frame = await first.next();
    if (frame?.type === "send") first.send({ type: "sent", ref: frame.ref, mid: 1 });
  }
  const took = performance.now() - begun;
  assert.equal(written[0], "focus", "what the user looks at waits for nothing");
  // Five seconds' worth, which are ten frames, are written at once.
  assert.ok(took > 900, String(took));
  // A new connection is no new budget.
  first.close(4003, "too many frames");
  const second = await gateway.accept();
  await second.next();
  second.send({ type: "welcome", resumed: true, token: TOKEN, ...rates });
  const again = performance.now();
  await second.next();
  assert.ok(performance.now() - again > 400);
});

test("a gateway that pings seldom is not given up", async (t) => {
  const timers = t.mock.method(globalThis, "setTimeout").mock;
  await open();
  const connection = await gateway.accept();
  await connection.next();
  const last = (): number => Number(timers.calls.at(-1)?.arguments[1]);
  connection.send({ type: "sync_required", after_ms: 0, ping_seconds: 120 });
  await connection.next();
  const all = timers.calls.map((call) => Number(call.arguments[1]));
  assert.ok(all.includes(250_000), String(all));
  connection.send({ type: "ping" });
  await connection.next();
  assert.equal(last(), 250_000);
  const welcome = { resumed: true, token: TOKEN, ping_seconds: 60 };
  connection.send({ type: "welcome", ...welcome });
  await handled(connection);
  connection.send({ type: "ping" });
  await connection.next();
  assert.equal(last(), 130_000);
});

const DAY_MS = 24 * 60 * 60 * 1_000;

/** Has sent `one` and `two` some days ago, and was not answered. */
async function openAfterDays(t: TestContext, storage = new MemoryStorage()) {
  const before = await open({ storage });
  const connection = await welcome();
  await own(before, connection);
  await before.close();
  const later = Date.now() + 4 * DAY_MS;
  t.mock.method(Date, "now", () => later);
  const again = await open({ storage });
  return { again, updates: again.updates() };

  async function own(device: Device, connection: ScriptedConnection) {
    connection.send(event(10, 5));
    await handled(connection);
    await device.send(PEER, "one", "a");
    await device.send(PEER, "two", "b");
    await connection.next();
    connection.send({ type: "accepted", ref: "1", at: "17:1" });
    await connection.next();
  }
}

function ownMessage(mid: number, client_msg_id: string): object {
  return { mid, srcid: ME, destid: "1001", msg: "text", ts: "", client_msg_id };
}

/** The log does not know a repeat after three days. */
test("a send of long ago is looked for before it goes out again", async (t) => {
  const { again, updates } = await openAfterDays(t);
  asked = [];
  answers = [
    () => Response.json({ items: [ownMessage(6, "other")], next: "after_mid=6" }),
    () => Response.json({ status: 503 }, { status: 503 }),
    () => Response.json({ items: [ownMessage(6, "other")], next: "after_mid=6" }),
    () => Response.json({ items: [ownMessage(7, "a")], next: null }),
  ];
  const connection = await welcome();
  const sent = { type: "sent", chat: PEER, clientMsgId: "a", mid: 7 };
  assert.deepEqual(await until(updates, "sent"), sent);
  const frame = await connection.next();
  assert.equal(frame?.type === "send" && frame.msg, "two", "it was not there");
  const after = asked.map((url) => new URL(url).searchParams.get("after_mid"));
  assert.deepEqual(after, ["5", "6", "5", "6"]);
  assert.equal(again.unanswered.length, 1);
});

test("a send that the device has itself does not go out again", async () => {
  const storage = new MemoryStorage();
  const before = await open({ storage });
  const connection = await welcome();
  await before.send(PEER, "one", "a");
  await connection.next();
  const { message, ...at } = event(10, 1);
  const own = { ...message, srcid: ME, destid: "1001", client_msg_id: "a" };
  connection.send({ ...at, message: own });
  await handled(connection);
  await before.close();
  const again = await open({ storage });
  const updates = again.updates();
  const next = await welcome();
  const sent = { type: "sent", chat: PEER, clientMsgId: "a", mid: 1 };
  assert.deepEqual(await until(updates, "sent"), sent);
  await handled(next);
  assert.deepEqual(again.unanswered, []);
});

test("a read-ack that is refused is told", async () => {
  const own = await open();
  const updates = own.updates();
  const connection = await welcome();
  await own.read(PEER, 3);
  await connection.next();
  const refusal = { reason: "forbidden", detail: "the caller may not" };
  connection.send({ type: "refused", ref: "1", ...refusal });
  const expected = { type: "read_refused", chat: PEER, mid: 3, ...refusal };
  assert.deepEqual(await until(updates, "read_refused"), expected);
  assert.deepEqual(own.unanswered, []);
});

/** A storage that can be full. */
class SmallStorage extends MemoryStorage {
  isFull = true;

  override async save(changes: StorageChanges): Promise<void> {
    if (this.isFull) throw new Error("the disk is full");
    await super.save(changes);
  }
}

test("a device whose storage fails goes on, says so once, and stores everything later", async () => {
  const storage = new SmallStorage();
  const own = await open({ storage });
  const updates = own.updates();
  const connection = await welcome();
  await own.send(PEER, "one", "a");
  await own.send(PEER, "two", "b");
  const full = { type: "storage", problem: "the disk is full" };
  assert.deepEqual(await until(updates, "storage"), full);
  assert.equal(own.storageProblem, "the disk is full");
  await connection.next();
  connection.send({ type: "sent", ref: "1", mid: 1 });
  connection.send(event(10, 1));
  await until(updates, "chat");
  await own.send(PEER, "three", "c");
  storage.isFull = false;
  await own.read(PEER, 1);
  const { value } = await updates.next();
  assert.deepEqual(value, { type: "storage", problem: null });
  assert.equal(own.storageProblem, null);
  const { head, chats, queue } = await storage.load();
  assert.equal(SyncToken.parse(head!.token!).get(17), 11);
  assert.deepEqual([...chats[0]!.messages.keys()], [1]);
  assert.deepEqual(
    queue.map((item) => item.kind),
    ["send", "send", "read"],
  );
});

test("a device sends from a page without https", async (t) => {
  t.mock.method(crypto, "randomUUID", () => assert.fail("there is none"));
  const own = await open();
  const connection = await welcome();
  const id = await own.send(PEER, "one");
  const frame = await connection.next();
  assert.equal(frame?.type === "send" && frame.client_msg_id, id);
});

test("a device whose storage has lost everything stores everything again", async () => {
  class Emptied extends MemoryStorage {
    kept = new MemoryStorage();
    isEmptied = false;
    override load(): Promise<StoredDevice> {
      return this.kept.load();
    }
    override async save(changes: StorageChanges): Promise<void> {
      if (!this.isEmptied) return this.kept.save(changes);
      this.isEmptied = false;
      this.kept = new MemoryStorage();
      throw new StorageEmptied();
    }
  }
  const storage = new Emptied();
  const own = await open({ storage });
  const updates = own.updates();
  const connection = await welcome();
  await own.send(PEER, "one", "a");
  connection.send(event(10, 1));
  await until(updates, "chat");
  await own.read(PEER, 1);
  storage.isEmptied = true;
  await own.send(PEER, "two", "b");
  const { head, chats, queue } = await storage.load();
  assert.equal(SyncToken.parse(head!.token!).get(17), 11);
  assert.deepEqual(chats.map((chat) => chat.key), [PEER]);
  assert.equal(queue.length, 3);
  assert.equal(own.storageProblem, null);
});

test("a device whose storage cannot be read goes on without it", async () => {
  class Closed extends MemoryStorage {
    override async load(): Promise<StoredDevice> {
      throw new DOMException("", "SecurityError");
    }
    override async save(): Promise<void> {
      assert.fail("what is stored would not match");
    }
  }
  const own = await open({ storage: new Closed() });
  const updates = own.updates();
  const problem = { type: "storage", problem: "SecurityError" };
  assert.deepEqual(await until(updates, "storage"), problem);
  const connection = await welcome();
  await own.send(PEER, "one", "a");
  assert.equal((await connection.next())?.type, "send");
});

test("what cannot be sent is refused here", async () => {
  const own = await open();
  const wrong: [ChatKey, string, string][] = [
    ["user:0", "text", "a"],
    ["user:9223372036854775808", "text", "a"],
    ["user:x", "text", "a"],
    ["user:1002:x", "text", "a"],
    ["Group:5000" as ChatKey, "text", "a"],
    ["1001" as ChatKey, "text", "a"],
    [PEER, `half of ${"😀".slice(0, 1)}`, "a"],
    [PEER, "😀".slice(1), "a"],
    [PEER, "text", "😀".slice(0, 1)],
    [PEER, "", "a"],
    [PEER, "a\0b", "a"],
    [PEER, "text", ""],
    [PEER, "text", "a\u0085"],
    [PEER, "ü".repeat(8_193), "a"],
    [PEER, "text", "x".repeat(65)],
  ];
  for (const [chat, msg, id] of wrong) {
    await assert.rejects(own.send(chat, msg, id), RangeError);
  }
  for (const chat of ["1001", "user:9223372036854775808"] as ChatKey[]) {
    await assert.rejects(own.fetch(chat), RangeError);
    await assert.rejects(own.read(chat, 1), RangeError);
    assert.throws(() => own.typing(chat), RangeError);
    assert.throws(() => own.focus(chat), RangeError);
  }
  for (const mid of [0, 1.5, "1"] as number[]) {
    await assert.rejects(own.read(PEER, mid), /mid must be/);
  }
  for (const none of [5, null, {}] as never[]) {
    const named = (name: string) => {
      return { name: "TypeError", message: RegExp(`^${name} must be a string`) };
    };
    await assert.rejects(own.send(PEER, none), named("msg"));
    await assert.rejects(own.send(PEER, "text", none), named("clientMsgId"));
  }
  assert.deepEqual(own.unanswered, []);
  // A whole character is one.
  await own.send(PEER, "😀", "😀");
});

test("a storage is that of one user", async () => {
  const storage = new MemoryStorage();
  await (await open({ storage })).close();
  await assert.rejects(open({ storage, uid: "1001" }), /that of user 1000/);
});

test("what the user looks at is said on each connection, and what comes of it is handed on", async () => {
  const own = await open();
  const updates = own.updates();
  own.focus(PEER);
  own.typing(PEER);
  let connection = await welcome();
  const focus: ClientFrame = { type: "focus", peer: "1001" };
  assert.deepEqual(await connection.next(), focus);
  connection.send({
    type: "presence",
    uid: "1001",
    online: true,
    classes: ["pc"],
  });
  assert.deepEqual(await until(updates, "presence"), {
    type: "presence",
    uid: "1001",
    online: true,
    classes: ["pc"],
    lastSeen: null,
  });
  connection.send({ type: "typing", from: "1001", to: ME });
  connection.send({ type: "typing", from: "1002", gid: "5000" });
  const typing = [
    await until(updates, "typing"),
    await until(updates, "typing"),
  ];
  assert.deepEqual(typing, [
    { type: "typing", chat: PEER, from: "1001" },
    { type: "typing", chat: "group:5000", from: "1002" },
  ]);
  assert.equal(own.chats.size, 0, "they are in no state");
  // Of many keys that are pressed one frame goes out.
  for (let n = 0; n < 3; n += 1) own.typing("group:5000");
  own.focus("group:5000");
  assert.deepEqual(await connection.next(), { type: "typing", gid: "5000" });
  const group: ClientFrame = { type: "focus", gid: "5000" };
  assert.deepEqual(await connection.next(), group);
  connection.destroy();
  connection = await welcome();
  assert.deepEqual(await connection.next(), group);
  own.focus(null);
  assert.deepEqual(await connection.next(), { type: "focus" });
});
