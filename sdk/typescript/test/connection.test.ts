import assert from "node:assert/strict";
import { test } from "node:test";
import { ConnectionEnded, ServiceError } from "../src/index.js";
import { Pauses } from "../src/link.js";
import { readVector } from "./vectors-folder.js";

const table = readVector<{
  closes: Record<string, string>;
  statuses: Record<string, string>;
  pauses_ms: number[];
  spread: [number, number];
  stream_ms: number;
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

test("a pause is a short one after a stream that lasted", (t) => {
  let now = 0;
  t.mock.method(performance, "now", () => now);
  t.mock.method(Math, "random", () => 0.5);
  const pauseAfter = (streamMs: number | null): number => {
    const pauses = new Pauses();
    pauses.next();
    if (streamMs !== null) pauses.streamBegins();
    now += streamMs ?? table.stream_ms;
    pauses.connectionEnds();
    return pauses.next();
  };
  const [first, second] = table.pauses_ms;
  assert.equal(pauseAfter(table.stream_ms), first);
  assert.equal(pauseAfter(table.stream_ms - 1), second);
  assert.equal(pauseAfter(null), second, "a handshake is no stream");
});
