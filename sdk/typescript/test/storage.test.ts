import assert from "node:assert/strict";
import { test } from "node:test";
import { forceCloseDatabase, IDBFactory } from "fake-indexeddb";
import { newChat, type Chat } from "../src/chat.js";
import { IndexedDbStorage } from "../src/indexeddb.js";
import type { QueueItem } from "../src/outbox.js";
import {
  MemoryStorage,
  StorageEmptied,
  type DeviceStorage,
  type StorageChanges,
} from "../src/storage.js";

const HEAD = { uid: "1000", token: "t", returned: [], fullSyncs: 1 };
const factory = new IDBFactory();

function changes(more: Partial<StorageChanges>): StorageChanges {
  return { head: HEAD, chats: new Map(), queue: new Map(), ...more };
}

function chatOf(peer: string, lastMid: number): Chat {
  const chat = newChat(`user:${peer}`);
  const message = { mid: 1, srcid: peer, msg: "hi", ts: "", destid: "1000" };
  chat.messages.set(1, message);
  return { ...chat, lastMid };
}

const storages: [string, () => DeviceStorage][] = [
  ["memory", () => new MemoryStorage()],
  ["IndexedDB", () => new IndexedDbStorage("device", factory)],
];

for (const [name, open] of storages) {
  test(`${name} keeps a device`, async () => {
    const storage = open();
    const empty = { head: null, chats: [], queue: [] };
    assert.deepEqual(await storage.load(), empty);
    const item: QueueItem = { kind: "read", seq: 7, chat: "user:1", mid: 2 };
    const one = chatOf("1001", 1);
    const two = chatOf("1002", 2);
    const both = new Map([one, two].map((chat) => [chat.key, chat]));
    const queue = new Map([[7, item]]);
    const saved = storage.save(changes({ chats: both, queue }));
    // What the device changes from here on belongs to the next save.
    one.lastMid = 9;
    one.messages.clear();
    await saved;
    const first = chatOf("1001", 1);
    const kept = { head: HEAD, chats: [first, two], queue: [item] };
    assert.deepEqual(await storage.load(), kept);
    const head = { ...HEAD, token: "u" };
    const gone = new Map([[two.key, null]]);
    const done = new Map([[7, null]]);
    await storage.save({ head, chats: gone, queue: done });
    assert.deepEqual(await storage.load(), { head, chats: [first], queue: [] });
  });
}

test("IndexedDB stores nothing of changes that it cannot take", async () => {
  const storage = new IndexedDbStorage("whole", factory);
  await storage.load();
  await storage.save(changes({}));
  const wrong = { ...chatOf("1001", 1), last: () => undefined } as never;
  const chats = new Map([["user:1001" as const, wrong]]);
  const later = changes({ head: { ...HEAD, token: "u" }, chats });
  await assert.rejects(storage.save(later), { name: "DataCloneError" });
  const kept = { head: HEAD, chats: [], queue: [] };
  assert.deepEqual(await storage.load(), kept);
  storage.close();
});

test("IndexedDB keeps a device over the end of the program", async () => {
  const before = new IndexedDbStorage("kept", factory);
  await assert.rejects(before.save(changes({})), /before load/);
  await before.load();
  const one = chatOf("1001", 1);
  await before.save(changes({ chats: new Map([[one.key, one]]) }));
  before.close();
  const after = await new IndexedDbStorage("kept", factory).load();
  assert.deepEqual(after, { head: HEAD, chats: [one], queue: [] });
});

/** A storage that has loaded, and the database that it has open. */
async function opened(name: string) {
  const databases: IDBDatabase[] = [];
  const own = new IDBFactory();
  const open = own.open.bind(own);
  own.open = (...named) => {
    const request = open(...named);
    request.addEventListener("success", () => databases.push(request.result));
    return request;
  };
  const storage = new IndexedDbStorage(name, own);
  await storage.load();
  const one = chatOf("1001", 1);
  await storage.save(changes({ chats: new Map([[one.key, one]]) }));
  const database = (): IDBDatabase => databases.at(-1)!;
  return { storage, own, database, one };
}

const CLOSED: [string, (database: IDBDatabase) => void][] = [
  ["says so", (database) => forceCloseDatabase(database as never)],
  ["does not say so", (database) => database.close()],
];

for (const [how, close] of CLOSED) {
  test(`IndexedDB stores after the browser has closed the database and ${how}`, async () => {
    const { storage, own, database, one } = await opened("closed");
    close(database());
    const two = chatOf("1002", 2);
    const saved = storage.save(changes({ chats: new Map([[two.key, two]]) }));
    // What the device changes from here on belongs to the next save.
    two.lastMid = 9;
    await saved;
    const head = { ...HEAD, token: "u" };
    await storage.save(changes({ head }));
    const after = await new IndexedDbStorage("closed", own).load();
    assert.deepEqual(after, { head, chats: [one, chatOf("1002", 2)], queue: [] });
  });
}

test("IndexedDB gives way to a page that deletes the database, and says what is lost", async () => {
  const { storage, own, one } = await opened("deleted");
  await new Promise((resolve, reject) => {
    const request = own.deleteDatabase("deleted");
    request.onsuccess = resolve;
    request.onblocked = reject;
  });
  await assert.rejects(storage.save(changes({})), StorageEmptied);
  // Everything comes again then.
  await storage.save(changes({ chats: new Map([[one.key, one]]) }));
  const kept = { head: HEAD, chats: [one], queue: [] };
  assert.deepEqual(await storage.load(), kept);
});

test("IndexedDB says that another page keeps the database from being opened", async (t) => {
  const { database, own } = await opened("busy");
  // A page of an earlier version, which gives way to nobody.
  database().onversionchange = null;
  own.deleteDatabase("busy");
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const loaded = new IndexedDbStorage("busy", own).load();
  t.mock.timers.tick(10_000);
  await assert.rejects(loaded, /another page may be using it/);
  database().close();
});
