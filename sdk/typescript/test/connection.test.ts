import assert from "node:assert/strict";
import { test } from "node:test";
import { ConnectionEnded, ServiceError } from "../src/index.js";
import type { ServerFrame } from "../src/frames.js";
import { getsOn, Pauses } from "../src/link.js";
import { readVector } from "./vectors-folder.js";

const table = readVector<{
  closes: Record<string, string>;
  statuses: Record<string, string>;
  pauses_ms: number[];
  spread: [number, number];
  frames: { gets_on: boolean; frame: ServerFrame }[];
}>("connection.json");

const outcome = (comesBack: boolean) => (comesBack ? "reconnect" : "end");

test("a close code says whether the device comes back", () => {
  for (const [code, expected] of Object.entries(table.closes)) {
    const ended = new ConnectionEnded("", Number(code), true);
    assert.equal(outcome(ended.comesBack), expected, code);
  }
});

test("so does the status of an answer", () => {
  for (const [status, expected] of Object.entries(table.statuses)) {
    const error = new ServiceError("", Number(status));
    assert.equal(outcome(error.isRetryable), expected, status);
  }
});

test("pauses grow, and differ from device to device", (t) => {
  for (const [index, factor] of table.spread.entries()) {
    t.mock.method(Math, "random", () => index);
    const pauses = new Pauses();
    for (const ms of [...table.pauses_ms, "reset", table.pauses_ms[0]!]) {
      if (typeof ms === "number") assert.equal(pauses.next(), ms * factor);
      else pauses.reset();
    }
  }
});

test("pauses are short again once something arrives", () => {
  for (const { gets_on, frame } of table.frames) {
    assert.equal(getsOn(frame), gets_on, frame.type);
  }
});
