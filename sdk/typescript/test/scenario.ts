/** The scenario that all clients pass: sdk/README.md. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";
import {
  Service,
  ServiceError,
  type IngestPaths,
  type QueryPaths,
} from "../src/index.js";
import type { Stack } from "./stack.js";

const SCENARIO = new URL("../../../scenario.json", import.meta.url);
const DEADLINE_MS = 30_000;

type Json =
  null | boolean | number | string | Json[] | { [name: string]: Json };
type Body = Record<string, string>;
type Accepted = { partition: number; offset: number };
interface Step {
  post?: Record<string, Body>;
  outcome?: Json;
  read?: keyof typeof READS;
  with?: Body;
  result?: Json;
  refused?: { status: number; field: string };
}

/** Runs all steps; fails at the first that does not end as it has to. */
export async function runScenario(stack: Stack): Promise<void> {
  const run = new Run(stack);
  for (const [i, step] of (await steps()).entries()) {
    try {
      await run.take(step);
    } catch (cause) {
      assert.fail(`step ${i + 1}, ${JSON.stringify(step)}: ${cause}`);
    }
  }
}

async function steps(): Promise<Step[]> {
  const text = await readFile(SCENARIO, "utf8");
  const names: string[] = JSON.parse(text).ids;
  const newId = () => String(1 + Math.floor(Math.random() * 2 ** 52));
  const ids = new Map(names.map((name) => [name, newId()]));
  const replaced = text.replace(
    /"\$(\w+)"/g,
    (_, name) => `"${ids.get(name)}"`,
  );
  return JSON.parse(replaced).steps;
}

class Run {
  readonly #ingest: Service<IngestPaths>;
  readonly query: Service<QueryPaths>;
  /** Everything that was posted. */
  after: string[] = [];

  constructor(stack: Stack) {
    this.#ingest = new Service({ url: stack.ingest });
    this.query = new Service({ url: stack.query });
  }

  async take(step: Step): Promise<void> {
    if (step.read !== undefined) {
      const result = await READS[step.read](this, step.with ?? {});
      return check(result as Json, step.result ?? null);
    }
    if (step.refused !== undefined) {
      const refusal = await this.#post(step).catch((error: unknown) => error);
      assert.ok(refusal instanceof ServiceError, String(refusal));
      const field = refusal.problem?.errors?.[0]?.field ?? null;
      return check({ status: refusal.status, field }, step.refused as Json);
    }
    const accepted = await this.#post(step);
    this.after.push(`${accepted.partition}:${accepted.offset}`);
    check(await this.#outcome(accepted), step.outcome ?? null);
  }

  #post(step: Step): Promise<Accepted> {
    const [[kind, body]] = Object.entries(step.post ?? {}) as [[string, Body]];
    if (kind === "profile") {
      const { uid, ...profile } = body;
      const path = "/v1/users/{uid}/profile";
      return this.#ingest.put(path, { uid: uid! }, profile as never);
    }
    return this.#ingest.post(pathOf(kind), {}, body as never);
  }

  async #outcome({ partition, offset }: Accepted): Promise<Json> {
    const end = Date.now() + DEADLINE_MS;
    for (;;) {
      const path = "/v1/inbound/{partition}/{offset}";
      const found = await this.query.get(path, { partition, offset });
      if (found.state !== "pending" || Date.now() > end) return found as Json;
      await setTimeout(20);
    }
  }
}

/** The call that takes what a line has as this member: of `read_ack` it is `/v1/read-acks`. */
function pathOf(kind: string) {
  return `/v1/${kind.replaceAll("_", "-")}s` as "/v1/messages";
}

/** A history is shorter than a page here, and so are changes and conversations. */
const READS = {
  unread: ({ query, after }: Run, { uid, device }: Body) =>
    query.get(
      "/v1/users/{uid}/unread",
      { uid: uid! },
      { device: device!, after },
    ),
  history: async ({ query, after }: Run, { uid, peer, gid }: Body) => {
    const which = { after_mid: 0, after };
    const page =
      gid === undefined
        ? query.get(
            "/v1/users/{uid}/conversations/{peer}/messages",
            { uid: uid!, peer: peer! },
            which,
          )
        : query.get(
            "/v1/groups/{gid}/messages",
            { gid },
            { uid: uid!, ...which },
          );
    return (await page).items;
  },
  changes: async ({ query, after }: Run, { uid, peer }: Body) => {
    const path = "/v1/users/{uid}/conversations/{peer}/changes";
    return (await query.get(path, { uid: uid!, peer: peer! }, { after })).items;
  },
  conversations: async ({ query, after }: Run, { uid }: Body) => {
    const path = "/v1/users/{uid}/conversations";
    return (await query.get(path, { uid: uid! }, { after })).items;
  },
  sync: ({ query }: Run, { uid }: Body) =>
    query.get("/v1/users/{uid}/sync", { uid: uid! }),
};

/** Fails unless the value matches, as sdk/README.md says; `at` is its path. */
function check(found: Json, expected: Json, at = "it"): void {
  if (Array.isArray(expected)) {
    assert.ok(Array.isArray(found), `${at} is ${JSON.stringify(found)}`);
    assert.equal(found.length, expected.length, `the length of ${at}`);
    expected.forEach((one, i) => check(found[i]!, one, `${at}[${i}]`));
  } else if (expected !== null && typeof expected === "object") {
    const members = found as { [name: string]: Json } | null;
    for (const [name, one] of Object.entries(expected)) {
      check(members?.[name] ?? null, one, `${at}.${name}`);
    }
  } else {
    assert.equal(found, expected, at);
  }
}
