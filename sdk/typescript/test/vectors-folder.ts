import { readFileSync } from "node:fs";

/** What the device in Rust is tested with, too: see the README there. */
const VECTORS = new URL(
  "../../../../tests/device-vectors/",
  import.meta.url,
);

export function readVector<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(name, VECTORS), "utf8")) as T;
}
