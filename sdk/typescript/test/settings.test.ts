import assert from "node:assert/strict";
import { test } from "node:test";
import { Device, isUid, Service, splitKey, type ChatKey } from "../src/index.js";
import { checkSettings, type DeviceSettings } from "../src/settings.js";

const GOOD: DeviceSettings = {
  uid: "1000",
  device: { id: "phone-1", class: "mobile", name: "😀".repeat(64) },
  gateways: ["ws://127.0.0.1:7308", "wss://chat.example.org/im/"],
  query: "http://127.0.0.1:7302//",
  WebSocket,
};

test("URLs may end with a slash", () => {
  const { gateways, query } = checkSettings(GOOD);
  const secure = "wss://chat.example.org/im";
  assert.deepEqual(gateways, ["ws://127.0.0.1:7308", secure]);
  assert.equal(query, "http://127.0.0.1:7302");
});

test("a service is called below its URL, whatever it ends with", async () => {
  const asked: unknown[] = [];
  const answer = async (url: unknown) => {
    asked.push(url);
    return Response.json({});
  };
  const service = new Service({ url: "http://query/im/", fetch: answer });
  await service.get("/v1/users" as never, {} as never);
  assert.deepEqual(asked, ["http://query/im/v1/users"]);
  assert.throws(() => new Service({ url: "query" }), /^RangeError: url must/);
  const misspelt = { url: "http://query", tokn: "t" };
  assert.throws(() => new Service(misspelt), /no settings.tokn, but url, token/);
});

const WRONG: [string, object, RegExp][] = [
  ["no uid", { uid: undefined }, /uid must be a string, and is absent/],
  ["a number", { uid: 1000 }, /uid must be a string, and is a number/],
  ["a uid of letters", { uid: "ann" }, /uid .* from 1 to .*, not ann/],
  [
    "a uid that is too large",
    { uid: "9223372036854775808" },
    /from 1 to 9223372036854775807, not 9223372036854775808/,
  ],
  ["no device", { device: undefined }, /device must be an object with id, class/],
  [
    "a misspelt name of the device",
    { device: { id: "a", class: "pc", nmae: "x" } },
    /there is no device.nmae, but id, class, name/,
  ],
  [
    "another class",
    { device: { id: "a", class: "tv" } },
    /must be pc or mobile, not tv/,
  ],
  ["no id", { device: { class: "pc" } }, /device.id must be .* is absent/],
  ["a number as id", { device: { id: 5, class: "pc" } }, /id must be a string/],
  ["an id with a space", { device: { id: "a b", class: "pc" } }, /, not a b/],
  [
    "a long name",
    { device: { id: "a", class: "pc", name: "x".repeat(65) } },
    /device.name must be 64/,
  ],
  [
    "half a character in the name",
    { device: { id: "a", class: "pc", name: "😀".slice(0, 1) } },
    /device.name .* well-formed/,
  ],
  ["no gateway", { gateways: [] }, /gateways must be like/],
  ["a text", { gateways: "ws://h" }, /gateways must be like/],
  ["no URL", { gateways: ["junk"] }, /gateways must be like ws:.*, not junk/],
  ["another scheme", { gateways: ["http://h"] }, /gateways .*, not http:\/\/h/],
  ["a query in a URL", { gateways: ["ws://h/?a"] }, /gateways must be like/],
  ["no query", { query: undefined }, /query must be like http:.*undefined/],
  [
    "no URL of query",
    { query: "junk" },
    /query must be like http:.*, not junk/,
  ],
  ["a password", { query: "http://u:p@h" }, /query must be like/],
  ["a fragment", { query: "http://h/#a" }, /query must be like/],
  ["a misspelt name", { tokn: "t" }, /no settings.tokn, but uid, .* token, /],
  ["a token that is no text", { token: 5 }, /token must be .* or a function/],
  ["a token of two lines", { token: "a\nb" }, /token must be a bearer token/],
  ["no methods of a storage", { storage: {} }, /load and save, .*; load is none/],
  ["half of a storage", { storage: { load() {} } }, /; save is none/],
  ["no bytes of a message", { maxMsgBytes: 0 }, /maxMsgBytes must be/],
  ["no function to fetch", { fetch: "f" }, /fetch must be as the platform's/],
];

for (const [name, more, message] of WRONG) {
  test(`settings with ${name} are refused`, async () => {
    const wrong = { ...GOOD, ...more } as DeviceSettings;
    const refusal = { name: /^(Type|Range)Error$/, message };
    await assert.rejects(Device.open(wrong), refusal);
  });
}

test("without settings it is said which there are", async () => {
  const refusal = { name: "TypeError", message: /an object with uid, device/ };
  await assert.rejects(Device.open(undefined as never), refusal);
});

test("a uid is a decimal number of 63 bits", () => {
  const most = "9223372036854775807";
  for (const uid of ["1", "1000", most]) assert.ok(isUid(uid), uid);
  const more = "9223372036854775808";
  for (const uid of ["", "0", "01", "-1", "1 ", "1\n", "x", more, `1${most}`]) {
    assert.ok(!isUid(uid), uid);
  }
});

test("where there is no WebSocket, it is said what has one", (context) => {
  const { WebSocket, ...rest } = GOOD;
  context.after(() => Object.assign(globalThis, { WebSocket }));
  Reflect.deleteProperty(globalThis, "WebSocket");
  assert.throws(() => checkSettings(rest), /22.*settings\.WebSocket/);
  checkSettings(GOOD);
});

test("a chat is a user or a group, and nothing else", () => {
  assert.deepEqual(splitKey("user:1001"), ["user", "1001"]);
  assert.deepEqual(splitKey("group:5000"), ["group", "5000"]);
  const wrong = ["", "1001", "user", "user:", "user:0", "user:01", "user:x"];
  const more = ["user:1:", "user:1:x", " user:1", "user:1 ", "user:1\n"];
  for (const key of [...wrong, ...more, "Group:1", "room:1", "user:-1"]) {
    assert.throws(() => splitKey(key as ChatKey), RangeError, key);
  }
});
