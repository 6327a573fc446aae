import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { silenceMs } from "../src/connection.js";
import { Pace } from "../src/pace.js";
import { readVector } from "./vectors-folder.js";

const table = readVector<{
  rates: { frames_per_s: number; bytes_per_s: number };
  burst_ms: number;
  silence_ms: [ping_seconds: number | null, ms: number][];
}>("connection.json");

/** Writes frames of so many bytes, each as soon as it may be: when, in milliseconds. */
function times(t: TestContext, pace: Pace, count: number, bytes: number): number[] {
  let now = 0;
  t.mock.method(performance, "now", () => now);
  return Array.from({ length: count }, () => {
    now += pace.wait(bytes);
    assert.ok(pace.wait(bytes) < 0.001);
    pace.spend(bytes);
    return now;
  });
}

test("frames keep to what a gateway allows that does not say", (t) => {
  const { frames_per_s } = table.rates;
  const atOnce = (frames_per_s * table.burst_ms) / 1_000;
  const at = times(t, new Pace(), atOnce + 2 * frames_per_s, 1);
  assert.equal(at[atOnce - 1], 0);
  assert.ok(Math.abs(at.at(-1)! - 2_000) < 0.01, String(at.at(-1)));
});

test("so do bytes", (t) => {
  const { bytes_per_s } = table.rates;
  const at = times(t, new Pace(), 70, bytes_per_s / 10);
  assert.ok(Math.abs(at.at(-1)! - (7_000 - table.burst_ms)) < 0.01);
});

test("a gateway says what it allows, and what it does not say stays", (t) => {
  const pace = new Pace();
  pace.set({ frames_per_s: 1 });
  pace.set({ bytes_per_s: 1_000 });
  pace.set({});
  assert.deepEqual(times(t, pace, 7, 100), [0, 0, 0, 0, 0, 1_000, 2_000]);
});

test("a frame of more than may be written at once waits for nothing but that", (t) => {
  const pace = new Pace();
  pace.set({ bytes_per_s: 1_000 });
  assert.deepEqual(times(t, pace, 2, 20_000), [0, 20_000]);
});

test("who was too fast writes nothing at once", (t) => {
  t.mock.method(performance, "now", () => 0);
  const pace = new Pace();
  pace.set({ frames_per_s: 10 });
  pace.exhaust();
  assert.deepEqual(times(t, pace, 2, 1), [100, 200]);
});

test("a gateway may be silent for as long as two of its pings take", () => {
  for (const [seconds, ms] of table.silence_ms) {
    assert.equal(silenceMs(seconds ?? undefined), ms, String(seconds));
  }
});
