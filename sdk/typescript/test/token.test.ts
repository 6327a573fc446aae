import assert from "node:assert/strict";
import { test } from "node:test";
import { PARTITIONS, SyncToken, TokenError } from "../src/token.js";
import { random } from "./random.js";

// As query-api wrote them.
const WHOLE =
  "AQAAAAABAQEBAQEBAQEDAQEBAQEBAQEFAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ";
const PAGE =
  "AQAAAAABAQEBAQEBAQEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAgDAAAAAAAAE4gAAAAAAAAAAw";

test("tokens of Tidemark are read and written as they came", () => {
  for (const text of [WHOLE, PAGE]) {
    assert.equal(SyncToken.parse(text).toString(), text);
  }
  const token = SyncToken.parse(WHOLE);
  const entries = [0, 8, 17, 63].map((partition) => token.get(partition));
  assert.deepEqual([token.epoch, ...entries], [0, 1, 3, 5, 1]);
});

test("a token is read as it was written", () => {
  const { below } = random(1);
  for (let run = 0; run < 500; run += 1) {
    const largest = 2 ** below(54) - 1;
    const offsets = Array.from({ length: PARTITIONS }, () =>
      Math.floor((below(1001) / 1000) * largest),
    );
    const token = SyncToken.of(below(2 ** 32), (i) => offsets[i]!);
    const again = SyncToken.parse(token.toString());
    assert.deepEqual(again, token);
    assert.equal(again.get(63), offsets[63]);
  }
});

test("an entry only rises, and covers what is below it", () => {
  const token = SyncToken.of(1, () => 255);
  assert.equal(token.toString().length, 94);
  token.advance(3, 256);
  token.advance(3, 7);
  assert.equal(token.toString().length, 179);
  assert.equal(token.covers({ partition: 3, offset: 255 }), true);
  assert.equal(token.covers({ partition: 3, offset: 256 }), false);
  assert.equal(token.covers({ partition: 4, offset: 255 }), false);
  const other = SyncToken.of(1, (partition) => (partition === 4 ? 300 : 0));
  token.raise(other);
  assert.deepEqual(
    [3, 4, 5].map((i) => token.get(i)),
    [256, 300, 255],
  );
});

test("what is no token of this version is an error", () => {
  const wide = "AQAAAAAI" + "f".repeat(683);
  const later = "AgAAAAAB" + WHOLE.slice(8);
  const wrong = ["", "x", "AAAA", "%%%", WHOLE.slice(4), `${WHOLE}AAAA`];
  for (const text of [...wrong, WHOLE.slice(0, -4), wide, later]) {
    assert.throws(() => SyncToken.parse(text), TokenError, text);
  }
  assert.throws(() => SyncToken.parse(WHOLE).get(64), RangeError);
});
