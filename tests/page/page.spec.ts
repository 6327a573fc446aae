import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { DevicePage } from "./device-page.js";
import { expect, newUsers, test } from "./fixtures.js";

test("the page runs its own script only, and calls its own stack only", async ({
  stack,
  request,
}) => {
  const headers = (await request.get("/")).headers();
  const policy = headers["content-security-policy"]!.split("; ");
  const connect = `connect-src 'self' ${stack.ingest} ${stack.query}`;
  expect(policy).toContain("default-src 'none'");
  expect(policy).toContain("script-src 'self'");
  expect(policy).toContain("style-src 'self'");
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).toContain(connect);
  expect(headers["x-content-type-options"]).toBe("nosniff");
  expect(headers["referrer-policy"]).toBe("no-referrer");
});

test("what was written offline goes out after a reload", async ({ open }) => {
  const [ann, bob] = newUsers();
  const [device, peer] = [await open(ann, "pc"), await open(bob, "pc")];
  await device.switchNetwork();
  await device.show(`user:${bob}`);
  await device.write("before the reload");
  await expect(device.message("before the reload")).toContainText(
    "Waiting for a connection",
  );
  await device.page.reload();
  await device.isConnected();
  await expect(peer.chat(`user:${ann}`)).toContainText("before the reload");
});

test("a send that is refused says why, and is put away", async ({
  open,
  ingest,
}) => {
  const [ann, bob] = newUsers();
  const block = { uid: bob, peer: ann, blocked: true };
  await ingest.post("/v1/contact-changes", {}, block);
  const device = await open(ann, "pc");
  await device.show(`user:${bob}`);
  await device.write("hello?");
  await expect(device.message("hello?")).toContainText(
    "Not sent: you are blocked there",
  );
  await device.button("Remove").click();
  await expect(device.message("hello?")).toHaveCount(0);
});

test("a change that is refused says why", async ({ open, ingest }) => {
  const [ann, bob] = newUsers();
  const device = await open(ann, "pc");
  await device.show(`user:${bob}`);
  await device.write("to be recalled");
  const message = device.message("to be recalled");
  await expect(message.getByRole("button", { name: "Edit" })).toBeVisible();
  await message.hover();
  await message.getByRole("button", { name: "Edit" }).click();
  const recall = { by: ann, peer: bob, mid: 1, kind: "recall" };
  await ingest.post("/v1/message-changes", {}, recall);
  await expect(device.message("recalled")).toHaveCount(1);
  await device.write("too late");
  await expect(device.notice).toHaveText("Not edited: it was recalled before");
});

test("members come and go", async ({ open }) => {
  const [[ann, bob], [carol]] = [newUsers(), newUsers()];
  const [owner, member] = [await open(ann, "pc"), await open(bob, "pc")];
  const key = await owner.createGroup("Choir", [bob]);
  await owner.button("Members").click();
  const dialog = owner.page.getByRole("dialog");
  await expect(dialog.getByRole("listitem")).toHaveText([
    `User ${ann} (owner)`,
    `User ${bob}`,
  ]);
  await dialog.getByLabel("Add members").fill(carol);
  await dialog.getByRole("button", { name: "Add" }).click();
  await expect(owner.page.getByText("3 members")).toBeVisible();
  await member.show(key);
  await member.button("Members").click();
  await member.button("Leave the group").click();
  await expect(member.chat(key)).toHaveCount(0);
  await expect(owner.page.getByText("2 members")).toBeVisible();
});

test("two devices of a page are two devices", async ({ page, ingest }) => {
  const [ann, bob] = newUsers();
  const message = { srcid: bob, destid: ann, client_msg_id: "1", msg: "hello" };
  await ingest.post("/v1/messages", {}, message);
  await page.goto(`/#${ann}/pc+${ann}/mobile`);
  const [pc, mobile] = [
    new DevicePage(page),
    new DevicePage(page, "Second device"),
  ];
  await Promise.all([pc.isConnected(), mobile.isConnected()]);
  const key = `user:${bob}`;
  await expect(pc.chat(key)).toContainText("1 unread");
  await pc.show(key);
  await expect(pc.chat(key)).not.toContainText("1 unread");
  await expect(pc.chat(key)).toContainText("1 on mobile");
  await expect(mobile.chat(key)).toContainText("1 unread");
  await mobile.show(key);
  await expect(pc.chat(key)).not.toContainText("1 on mobile");
});

test("a device that is forgotten begins with nothing", async ({
  page,
  open,
  ingest,
}) => {
  const [ann, bob] = newUsers();
  const message = { srcid: bob, destid: ann, client_msg_id: "1", msg: "hello" };
  await ingest.post("/v1/messages", {}, message);
  const device = await open(ann, "pc");
  await expect(device.chat(`user:${bob}`)).toBeVisible();
  const databases = () =>
    device.page.evaluate(async () => (await indexedDB.databases()).length);
  expect(await databases()).toBe(1);
  await device.button("Forget").click();
  await expect(device.button("Begin")).toBeVisible();
  await expect.poll(databases).toBe(0);
  await page.close();
});

test("where callers are authenticated the page asks for a token", async ({
  page,
}) => {
  await page.route("**/page/settings.json", async (route) => {
    const response = await route.fetch();
    const settings = { ...(await response.json()), authenticates: true };
    await route.fulfill({ response, json: settings });
  });
  await page.goto("/");
  const device = page.getByRole("region", { name: "First device" });
  await expect(device.getByLabel("Or any other number")).toHaveCount(0);
  const field = device.getByLabel("Bearer token");
  await field.fill("no token");
  await device.getByRole("button", { name: "Begin" }).click();
  await expect(device.getByRole("alert")).toContainText("no token");
  const payload = Buffer.from('{"sub":"2999"}').toString("base64url");
  const connecting = page.waitForEvent("websocket");
  await field.fill(`e30.${payload}.c2ln`);
  await device.getByRole("button", { name: "Begin" }).click();
  expect((await connecting).url()).not.toContain("uid=");
  await expect(
    device.getByRole("heading", { name: "User 2999" }),
  ).toBeVisible();
});

test("everything is done by keyboard", async ({ page }) => {
  const [ann, bob] = newUsers();
  await page.goto("/");
  await tabTo(page, "Or any other number");
  await page.keyboard.type(ann);
  await page.keyboard.press("Enter");
  const device = new DevicePage(page);
  await device.isConnected();
  await tabTo(page, "New chat");
  await page.keyboard.press("Enter");
  await page.keyboard.type(bob);
  await page.keyboard.press("Enter");
  // The conversation has the focus now.
  await page.keyboard.type("by keyboard");
  await page.keyboard.press("Enter");
  await expect(device.message("by keyboard")).toHaveAttribute("data-mid", "1");
  await tabTo(page, "Recall", "Shift+Tab");
  await page.keyboard.press("Enter");
  await expect(device.message("recalled")).toHaveCount(1);
});

/** Presses Tab until a control of this name has the focus. */
async function tabTo(page: Page, name: string, key = "Tab"): Promise<void> {
  for (let presses = 0; presses < 40; presses += 1) {
    await page.keyboard.press(key);
    const focused = await page.evaluate(() => {
      const element = document.activeElement;
      const label =
        element instanceof HTMLInputElement ? element.labels?.[0] : element;
      return label?.textContent ?? "";
    });
    if (focused.startsWith(name)) return;
  }
  throw new Error(`the keyboard does not reach ${name}`);
}

for (const colorScheme of ["light", "dark"] as const) {
  test(`no rule of accessibility is broken (${colorScheme})`, async ({
    page,
  }) => {
    const [ann, bob] = newUsers();
    await page.emulateMedia({ colorScheme });
    await page.goto("/");
    await expect(page.getByRole("button", { name: "Begin" })).toBeVisible();
    await assertAccessible(page);
    await page.goto(`/#${ann}/pc+${bob}/mobile`);
    await page.reload();
    await showSomethingOfEach(page, ann, bob);
    await assertAccessible(page);
    await new DevicePage(page).button("New group").click();
    await assertAccessible(page);
  });
}

async function assertAccessible(page: Page): Promise<void> {
  const { violations } = await new AxeBuilder({ page }).analyze();
  const found = violations.map(({ id, nodes }) => [
    id,
    nodes.map(({ html }) => html),
  ]);
  expect(found).toEqual([]);
}

/** Two devices with messages that are sent, recalled, waiting and unread. */
async function showSomethingOfEach(
  page: Page,
  ann: string,
  bob: string,
): Promise<void> {
  const [first, second] = [
    new DevicePage(page),
    new DevicePage(page, "Second device"),
  ];
  await Promise.all([first.isConnected(), second.isConnected()]);
  await first.show(`user:${bob}`);
  await first.write("recall me");
  await first.recall("recall me");
  await first.write("a message");
  await expect(second.chat(`user:${ann}`)).toContainText("2 unread");
  await second.switchNetwork();
  await second.show(`user:${ann}`);
  await second.write("a message that waits");
  await expect(second.message("that waits")).toBeVisible();
}

test("nothing is wider than a telephone", async ({ page }) => {
  const [ann, bob] = newUsers();
  await page.setViewportSize({ width: 360, height: 740 });
  await page.goto("/");
  await expect(page.getByRole("button", { name: "Begin" })).toBeVisible();
  await assertFits(page);
  await page.goto(`/#${ann}/pc+${bob}/mobile`);
  await page.reload();
  const device = new DevicePage(page);
  await showSomethingOfEach(page, ann, bob);
  await device.write("w".repeat(200));
  await expect(device.message("wwww")).toHaveAttribute("data-mid", "3");
  await assertFits(page);
  // One column: the list is behind the conversation.
  await expect(device.chat(`user:${bob}`)).toBeHidden();
  await device.button("Back").click();
  await expect(device.chat(`user:${bob}`)).toBeFocused();
  await assertFits(page);
  await device.button("New group").click();
  await assertFits(page);
});

async function assertFits(page: Page): Promise<void> {
  const wider = await page.evaluate(() => {
    const boxes = document.querySelectorAll("html, .scroll, dialog");
    const isWider = (box: Element): boolean =>
      box.scrollWidth > box.clientWidth || box.scrollWidth > 360;
    return [...boxes].filter(isWider).map((box) => box.outerHTML.slice(0, 80));
  });
  expect(wider).toEqual([]);
}
