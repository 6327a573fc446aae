import { fileURLToPath } from "node:url";
import type { Page } from "@playwright/test";
import type { IngestPaths, Service } from "../../sdk/typescript/src/index.js";
import { DevicePage } from "./device-page.js";
import { expect, test } from "./fixtures.js";

const NICKS = {
  "1000": "Mara",
  "1001": "Jonas",
  "1002": "Ines",
  "1003": "Ann",
};
const HARBOUR: [string, string][] = [
  ["1003", "The boat is in. Who helps?"],
  ["1001", "I do, from four."],
  ["1000", "Wrong group, sorry."],
  ["1000", "I bring coffee. Rain is due after six."],
  ["1002", "Then I come early."],
];
const JONAS: [string, string][] = [
  ["1001", "Have you seen the tide table?"],
  ["1000", "High water is at 17:42."],
  ["1001", "Then we leave at five."],
];

test("pictures for the documents", async ({ page, ingest }) => {
  await tell(ingest);
  await page.setViewportSize({ width: 1200, height: 680 });
  await page.goto("/#1000/pc+1000/mobile");
  const [pc, mobile] = [
    new DevicePage(page),
    new DevicePage(page, "Second device"),
  ];
  await Promise.all([pc.isConnected(), mobile.isConnected()]);
  await pc.show("group:5000");
  await expect(pc.message("The boat is in")).toContainText("Ann");
  await mobile.show("user:1001");
  await mobile.switchNetwork();
  await mobile.write("I am on the train, without a network.");
  await expect(mobile.message("on the train")).toContainText("Waiting");
  await expect(pc.chat("group:5000")).toContainText("on mobile");
  await take(page, "chat.png");

  await page.emulateMedia({ colorScheme: "dark" });
  await page.setViewportSize({ width: 390, height: 700 });
  await page.goto("/#1002/mobile");
  await pc.isConnected();
  await pc.show("group:5000");
  await expect(pc.message("The boat is in")).toContainText("Ann");
  await take(page, "chat-phone.png");
});

/** What the pictures show. */
async function tell(ingest: Service<IngestPaths>): Promise<void> {
  for (const [uid, nick] of Object.entries(NICKS)) {
    await ingest.put("/v1/users/{uid}/profile", { uid }, { nick });
  }
  const members = ["1000", "1001", "1002"];
  const group = { gid: "5000", owner: "1003", name: "Harbour", members };
  await ingest.post("/v1/groups", {}, group);
  for (const [srcid, msg] of HARBOUR) {
    await ingest.post("/v1/messages", {}, { srcid, gid: "5000", msg });
  }
  const recall = { by: "1000", gid: "5000", mid: 3, kind: "recall" };
  await ingest.post("/v1/message-changes", {}, recall);
  const edit = { by: "1003", gid: "5000", mid: 1, kind: "edit" };
  const msg = "The boat is in. Who helps with the ropes?";
  await ingest.post("/v1/message-changes", {}, { ...edit, msg });
  for (const [srcid, text] of JONAS) {
    const destid = srcid === "1000" ? "1001" : "1000";
    await ingest.post("/v1/messages", {}, { srcid, destid, msg: text });
  }
  for (const text of ["Lunch?", "I have cake."]) {
    await ingest.post(
      "/v1/messages",
      {},
      { srcid: "1002", destid: "1000", msg: text },
    );
  }
}

async function take(page: Page, name: string): Promise<void> {
  const path = fileURLToPath(new URL(`../../docs/${name}`, import.meta.url));
  // No caret that blinks, and no focus where a picture does not say why.
  await page.evaluate(() => (document.activeElement as HTMLElement).blur());
  await page.screenshot({ path, animations: "disabled" });
}
