import assert from "node:assert/strict";
import { test } from "node:test";
import { Saver } from "../src/saver.js";

test("a save waits for the one that has begun, and takes what changed meanwhile", async () => {
  let value = 1;
  const written: number[] = [];
  const ends: (() => void)[] = [];
  const write = (): Promise<void> => {
    written.push(value);
    return new Promise((resolve) => ends.push(resolve));
  };
  const saver = new Saver(write, () => assert.fail());
  const first = saver.save();
  value = 2;
  const second = saver.save();
  const third = saver.save();
  assert.equal(second, third, "one write takes both");
  ends[0]!();
  await first;
  await new Promise(setImmediate);
  assert.deepEqual(written, [1, 2]);
  ends[1]!();
  await second;
});

test("a failure is told once, and what it took is saved with the next", async () => {
  const problems: (string | null)[] = [];
  let isFull = true;
  const write = async (): Promise<void> => {
    if (isFull) throw new Error("full");
  };
  const saver = new Saver(write, (problem) => problems.push(problem));
  saver.saveSoon();
  await saver.save();
  await saver.save();
  assert.equal(saver.problem, "full");
  isFull = false;
  await saver.save();
  assert.deepEqual(problems, ["full", null]);
  assert.equal(saver.problem, null);
});

test("where saving fails it is tried again by itself", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  let writes = 0;
  const write = async (): Promise<void> => {
    writes += 1;
    if (writes < 3) throw new Error("full");
  };
  const saver = new Saver(write, () => undefined);
  await saver.save();
  for (const [ms, expected] of [
    [9_000, 1],
    [1_000, 2],
    [10_000, 3],
    [60_000, 3],
  ] as const) {
    context.mock.timers.tick(ms);
    await new Promise(setImmediate);
    assert.equal(writes, expected);
  }
  saver.saveSoon();
  saver.cancel();
  context.mock.timers.tick(60_000);
  assert.equal(writes, 3);
});
