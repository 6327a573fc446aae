import { defineConfig } from "@playwright/test";

/** Debian's; Playwright's own is not on a registry of packages. */
const executablePath = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
/** Chromium's sandbox does not work for root. */
const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];

export default defineConfig({
  // The tests share a stack.
  workers: 1,
  fullyParallel: false,
  timeout: 120_000,
  expect: { timeout: 30_000 },
  reporter: [["list"]],
  outputDir: "test-results",
  use: {
    launchOptions: { executablePath, args },
    // What a failed test has seen.
    trace: "retain-on-failure",
  },
  projects: [
    { name: "tests", testMatch: /.*\.spec\.ts/ },
    { name: "pictures", testMatch: /pictures\.ts/ },
  ],
});
