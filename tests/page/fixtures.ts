import { test as base, expect, type Page } from "@playwright/test";
import {
  Service,
  type IngestPaths,
  type QueryPaths,
} from "../../sdk/typescript/src/index.js";
import { PROGRAM, Stack } from "../../sdk/typescript/test/stack.js";
import { DevicePage } from "./device-page.js";

interface Fixtures {
  ingest: Service<IngestPaths>;
  query: Service<QueryPaths>;
  /** Opens a page with a device of its own, in a browser that knows nothing. */
  open: (uid: string, cls: "pc" | "mobile") => Promise<DevicePage>;
}

/** Each test has users of its own. */
let lastUser = 2_000;
export function newUsers(): [string, string] {
  lastUser += 2;
  return [String(lastUser - 1), String(lastUser)];
}

/** With a stack for all tests, and pages that break no rule of their security policy and throw nothing. */
export const test = base.extend<Fixtures, { stack: Stack }>({
  stack: [
    async ({}, use) => {
      if (PROGRAM === undefined) throw new Error("TIDEMARK names no program");
      const stack = await Stack.start(PROGRAM);
      await use(stack);
      await stack.stop();
    },
    { scope: "worker", timeout: 180_000 },
  ],
  baseURL: ({ stack }, use) => use(stack.page),
  ingest: ({ stack }, use) => use(new Service({ url: stack.ingest })),
  query: ({ stack }, use) => use(new Service({ url: stack.query })),
  page: async ({ page }, use) => {
    const violations = watch(page);
    await use(page);
    expect(violations).toEqual([]);
  },
  open: async ({ browser, baseURL }, use) => {
    const violations: string[][] = [];
    await use(async (uid, cls) => {
      const context = await browser.newContext({ baseURL: baseURL! });
      const page = await context.newPage();
      violations.push(watch(page));
      const device = new DevicePage(page);
      await device.begin(uid, cls);
      return device;
    });
    await Promise.all(browser.contexts().map((context) => context.close()));
    expect(violations.flat()).toEqual([]);
  },
});

/** What a page does that it must not. */
function watch(page: Page): string[] {
  const found: string[] = [];
  page.on("pageerror", (error) => found.push(String(error)));
  page.on("console", (message) => {
    if (/Content Security Policy|Trusted/.test(message.text())) {
      found.push(message.text());
    }
  });
  return found;
}

export { expect };
