import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { setTimeout } from "node:timers/promises";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual, promisify } from "node:util";
import {
  Device,
  IndexedDbStorage,
  MemoryStorage,
  Service,
  missing,
  type Chat,
  type ChatKey,
  type DeviceClass,
  type DeviceSettings,
  type IngestPaths,
  type QueryPaths,
  type Update,
} from "../src/index.js";
import { IDBFactory } from "fake-indexeddb";
import { random } from "./random.js";
import { runScenario } from "./scenario.js";
import { PROGRAM, Stack } from "./stack.js";
import { Traffic, type Returning } from "./traffic.js";

const DEADLINE_MS = 30_000;

/** Each test has users of its own. */
let lastUser = 1_000;
function newUsers(): [string, string] {
  lastUser += 2;
  return [String(lastUser - 1), String(lastUser)];
}

describe("on a stack", { skip: PROGRAM === undefined }, () => {
  let stack: Stack;
  let ingest: Service<IngestPaths>;
  let query: Service<QueryPaths>;
  const devices: Device[] = [];

  before(async () => {
    stack = await Stack.start(PROGRAM!);
    ingest = new Service({ url: stack.ingest });
    query = new Service({ url: stack.query });
  });

  after(async () => {
    await Promise.all(devices.map((device) => device.close()));
    await stack?.stop();
  });

  async function open(
    uid: string,
    cls: DeviceClass = "pc",
    more: Partial<DeviceSettings> = {},
  ): Promise<Device> {
    const device = await Device.open({
      uid,
      device: { id: `${cls}-${devices.length}`, class: cls },
      gateways: [stack.gateway],
      query: stack.query,
      ...more,
    });
    devices.push(device);
    return device;
  }

  /** A device that is connected. */
  async function connected(...args: Parameters<typeof open>): Promise<Device> {
    const device = await open(...args);
    await until(() => device.isConnected);
    return device;
  }

  /** Once everything has come, a device has what one has that begins with nothing. */
  async function assertWhole(uid: string, device: Device): Promise<void> {
    const fresh = await connected(uid);
    // What a fetch syncs may make another chat miss something.
    const isWhole = async () => {
      for (const one of [device, fresh]) {
        for (const key of [...one.chats.keys()]) await one.fetch(key);
      }
      const lacks = [...device.chats.values()].map(missing);
      const isComplete = lacks.every((one) => one === null);
      return isComplete && isDeepStrictEqual(view(device), view(fresh));
    };
    const end = Date.now() + DEADLINE_MS;
    while (!(await isWhole())) {
      if (Date.now() > end) assert.deepEqual(view(device), view(fresh));
      assert.ok(Date.now() < end, "something is missing still");
      // A fetch of nothing lets no frame in.
      await setTimeout(10);
    }
    await fresh.close();
  }

  async function script(name: string, urls: object, ...args: string[]) {
    const file = new URL(`../../scripts/${name}`, import.meta.url);
    const env = { ...process.env, ...urls };
    const all = [fileURLToPath(file), ...args];
    await promisify(execFile)(process.execPath, all, { env });
  }

  test("the generated types are those of the services", async () => {
    const urls = {
      TIDEMARK_INGEST: stack.ingest,
      TIDEMARK_QUERY: stack.query,
      TIDEMARK_GATEWAY: stack.gateway.replace("ws:", "http:"),
    };
    await script("generate.mjs", urls, "--check");
  });

  test("the typed calls pass the scenario of all clients", async () => {
    await runScenario(stack);
  });

  test("what the gateway says about itself is AsyncAPI", async () => {
    const url = stack.gateway.replace("ws:", "http:");
    await script("check-asyncapi.mjs", { TIDEMARK_GATEWAY: url });
  });

  test("a message reaches all devices, and so does what is read", async () => {
    const [me, peer] = newUsers();
    const pc = await connected(me, "pc");
    const mobile = await connected(me, "mobile");
    const other = await connected(peer);
    const [toPeer, toMe]: ChatKey[] = [`user:${peer}`, `user:${me}`];
    const sent = outcomeOf(pc, toPeer!, "hello");
    await until(() => text(other, toMe!, 1) === "hello");
    await until(() => text(mobile, toPeer!, 1) === "hello");
    assert.equal((await sent).type, "sent");
    assert.deepEqual(other.chats.get(toMe!)?.unread, { pc: 1, mobile: 1 });
    await other.read(toMe!, 1);
    const unread = () => other.chats.get(toMe!)?.unread;
    await until(() => unread()?.pc === 0);
    assert.deepEqual(unread(), { pc: 0, mobile: 1 });
    await until(() => other.unanswered.length === 0);
    const edit = { kind: "edit", mid: 1, msg: "hello!" };
    await ingest.post("/v1/message-changes", {}, { by: me, peer, ...edit });
    await until(() => text(other, toMe!, 1) === "hello!");
    await assertWhole(me, mobile);
    await assertWhole(peer, other);
  });

  test("a device that was away has what was sent meanwhile", async () => {
    const [me, peer] = newUsers();
    const factory = new IDBFactory();
    const storage = () => new IndexedDbStorage("device", factory);
    const key: ChatKey = `user:${peer}`;
    const first = await connected(me, "pc", { storage: storage() });
    await first.send(key, "one");
    await until(() => text(first, key, 1) === "one");
    await first.close();
    const answers = [];
    for (const msg of ["two", "three"]) {
      const message = { srcid: peer, destid: me, client_msg_id: msg, msg };
      answers.push(await ingest.post("/v1/messages", {}, message));
    }
    const again = await open(me, "pc", { storage: storage() });
    assert.equal(text(again, key, 1), "one");
    await until(() => again.chats.get(key)?.lastMid === 3);
    assert.deepEqual(again.chats.get(key)?.unread, { pc: 2, mobile: 2 });
    assert.equal(again.fullSyncs, 1, "the first one");
    await assertWhole(me, again);
    const { partition, offset } = answers[1]!;
    const parameters = { uid: me, peer };
    const path = "/v1/users/{uid}/conversations/{peer}/messages";
    const wanted = { after_mid: 0, after: [`${partition}:${offset}`] };
    const page = await query.get(path, parameters, wanted);
    assert.deepEqual(
      page.items.map((item) => item.msg),
      ["one", "two", "three"],
    );
  });

  test("a group comes and goes", async () => {
    const [me, owner] = newUsers();
    const device = await connected(me);
    const group = { owner, name: "Lunch", members: [me], client_id: "lunch" };
    const { gid } = await ingest.post("/v1/groups", {}, group);
    assert.ok(gid);
    const key: ChatKey = `group:${gid}`;
    const message = { gid, client_msg_id: "noon", msg: "noon?", srcid: owner };
    await ingest.post("/v1/messages", {}, message);
    await until(() => text(device, key, 1) === "noon?");
    assert.deepEqual(device.chats.get(key)?.unread, { pc: 1, mobile: 1 });
    await device.send(key, "yes");
    await until(() => text(device, key, 2) === "yes");
    assert.deepEqual(device.chats.get(key)?.unread, { pc: 0, mobile: 0 });
    await assertWhole(me, device);
    const changes = "/v1/groups/{gid}/changes";
    await ingest.post(changes, { gid }, { by: owner, remove: [me] });
    await until(() => !device.chats.has(key));
    const update = await outcomeOf(device, key, "still here");
    assert.equal(update.type === "refused" && update.reason, "not-a-member");
  });

  test("devices that come and go end with what a new one has", async () => {
    const users = [...newUsers(), ...newUsers()];
    const [owner = "", ...members] = users;
    const group = { owner, members, name: "Lunch", client_id: "random" };
    const { gid } = await ingest.post("/v1/groups", {}, group);
    const comers: Returning[] = [...users, ...users].map((uid, i) => {
      const storage = new MemoryStorage();
      const cls = i < users.length ? "pc" : "mobile";
      return { uid, device: null, open: () => open(uid, cls, { storage }) };
    });
    const traffic = new Traffic(ingest, comers, gid!, random(7));
    for (let step = 0; step < 200; step += 1) await traffic.step();
    await traffic.rest(until);
    for (const { uid, device } of comers) await assertWhole(uid, device!);
  });

  test("nothing is missed where a gateway is killed", async () => {
    const [me, peer] = newUsers();
    const key: ChatKey = `user:${peer}`;
    const device = await connected(me, "pc", { storage: new MemoryStorage() });
    const updates = device.updates();
    await stack.kill("gateway");
    await next(updates, "disconnected");
    const ids = [];
    for (const msg of ["one", "two", "three"]) {
      ids.push(await device.send(key, msg));
      const message = { srcid: peer, destid: me, client_msg_id: msg, msg };
      await ingest.post("/v1/messages", {}, message);
    }
    assert.equal(device.unanswered.length, 3);
    await stack.up();
    await until(() => device.unanswered.length === 0);
    await until(() => device.chats.get(key)?.lastMid === 6);
    await assertWhole(me, device);
    const mine = [...device.chats.get(key)!.messages.values()].filter(
      ({ srcid }) => srcid === me,
    );
    assert.deepEqual(
      mine.map((message) => message.client_msg_id),
      ids,
    );
  });
});

/** Waits until something holds, or the deadline has passed. */
async function until(holds: () => boolean): Promise<void> {
  const end = Date.now() + DEADLINE_MS;
  while (!holds()) {
    assert.ok(Date.now() < end, `not in time: ${holds}`);
    await setTimeout(10);
  }
}

async function next(
  updates: AsyncIterableIterator<Update>,
  type: Update["type"],
): Promise<Update> {
  for (;;) {
    const { value } = await updates.next();
    if (value === undefined) assert.fail(`ended before ${type}`);
    if (value.type === type) return value;
  }
}

/** What becomes of a send. */
async function outcomeOf(
  device: Device,
  chat: ChatKey,
  msg: string,
): Promise<Update> {
  const updates = device.updates();
  const id = await device.send(chat, msg);
  for await (const update of updates) {
    const isOutcome = update.type === "sent" || update.type === "refused";
    if (isOutcome && update.clientMsgId === id) return update;
  }
  assert.fail(`nothing has become of ${id}`);
}

function text(device: Device, key: ChatKey, mid: number): string | undefined {
  return device.chats.get(key)?.messages.get(mid)?.msg;
}

/** What a user sees of a device, in an order. */
function view(device: Device): unknown {
  const seen = (chat: Chat) => {
    const { key, with: other, lastMid, readMid, unread, last } = chat;
    const messages = [...chat.messages.values()].sort((a, b) => a.mid - b.mid);
    const newest = last && [last.mid, last.msg, last.recalled ?? false];
    return { key, other, lastMid, readMid, unread, newest, messages };
  };
  return [...device.chats.values()]
    .map(seen)
    .sort((a, b) => (a.key < b.key ? -1 : 1));
}
