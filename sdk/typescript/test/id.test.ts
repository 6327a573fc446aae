import assert from "node:assert/strict";
import { test } from "node:test";
import { newId } from "../src/index.js";

test("ids are random UUIDs", () => {
  const ids = new Set(Array.from({ length: 1_000 }, newId));
  assert.equal(ids.size, 1_000);
  const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
  for (const id of ids) assert.match(id, uuid);
});

test("they need no page of https", (t) => {
  t.mock.method(crypto, "randomUUID", () => assert.fail("there is none"));
  assert.ok(newId());
});
