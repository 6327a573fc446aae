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

test("nothing is saved behind a failure", async () => {
  const failures: unknown[] = [];
  let writes = 0;
  const write = async (): Promise<void> => {
    writes += 1;
    throw new Error("full");
  };
  const saver = new Saver(write, (error) => failures.push(error));
  saver.saveSoon();
  await assert.rejects(saver.save(), /full/);
  await assert.rejects(saver.save(), /full/);
  assert.equal(writes, 1);
  assert.match(String(failures[0]), /full/);
});
