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

test("a send that is refused says why, stays, and is sent again or put away", async ({
  open,
  ingest,
}) => {
  const [ann, bob] = newUsers();
  const block = { uid: bob, peer: ann, blocked: true };
  await ingest.post("/v1/contact-changes", {}, block);
  const device = await open(ann, "pc");
  await device.show(`user:${bob}`);
  for (const text of ["hello?", "anybody?"]) {
    await device.write(text);
    const refused = device.message(text);
    await expect(refused).toContainText("Not sent: you are blocked there");
  }
  await assertAccessible(device.page);
  await device.page.reload();
  await device.isConnected();
  await device.show(`user:${bob}`);
  const [first, second] = [
    device.message("hello?"),
    device.message("anybody?"),
  ];
  await first.getByRole("button", { name: "Remove" }).click();
  await expect(first).toHaveCount(0);
  await ingest.post("/v1/contact-changes", {}, { ...block, blocked: false });
  // The sequencer knows it a moment later.
  await expect(async () => {
    const again = second.getByRole("button", { name: "Send again" });
    if (await again.isVisible()) await again.click({ timeout: 1_000 });
    await expect(second).toHaveAttribute("data-mid", "1", { timeout: 1_000 });
  }).toPass();
  await expect(second).toHaveCount(1);
});

test("a message that cannot be one says what is wrong, and keeps its text", async ({
  open,
}) => {
  const [ann, bob] = newUsers();
  const device = await open(ann, "pc");
  await device.show(`user:${bob}`);
  await device.write("a\u0000b");
  await expect(device.notice).toContainText("without NUL");
  const long = "m".repeat(16_385);
  await device.write(long);
  await expect(device.notice).toContainText("must have 1 to 16384 bytes");
  await expect(device.field).toHaveValue(long);
  await device.write("short");
  await expect(device.message("short")).toHaveAttribute("data-mid", "1");
  await expect(device.notice).toBeHidden();
  // A number that nobody has.
  await device.button("New chat").click();
  const dialog = device.page.getByRole("dialog");
  await dialog.getByLabel("Number of the user").fill("9223372036854775808");
  await dialog.getByRole("button", { name: "Open" }).click();
  await expect(dialog.getByRole("alert")).toContainText("from 1 to 922");
});

test("a reaction is shown to both, replaced and taken back", async ({
  open,
}) => {
  const [ann, bob] = newUsers();
  const [device, peer] = [await open(ann, "pc"), await open(bob, "pc")];
  await device.show(`user:${bob}`);
  await device.write("lunch?");
  await peer.show(`user:${ann}`);
  const react = async (emoji: string): Promise<void> => {
    const message = peer.message("lunch?");
    await message.getByRole("button", { name: "React" }).click();
    await message.getByRole("button", { name: emoji, exact: true }).click();
  };
  const shown = device.message("lunch?").getByRole("group", {
    name: "Reactions",
  });
  await react("👍");
  await expect(shown).toHaveText("👍 1");
  await assertAccessible(device.page);
  await react("😂");
  await expect(shown).toHaveText("😂 1");
  await shown.getByRole("button").click();
  await expect(shown).toHaveText("😂 2");
  const own = peer.message("lunch?").getByRole("button", { pressed: true });
  await expect(own).toHaveText("😂 2");
  await own.click();
  await expect(shown).toHaveText("😂 1");
  await device.page.reload();
  await device.isConnected();
  await device.show(`user:${bob}`);
  await expect(shown).toHaveText("😂 1");
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
  await expect(device.field).toHaveValue("too late");
  await device.button("Cancel").click();
  await expect(device.field).toHaveValue("");
});

test("an edit leaves what was begun before it", async ({ open }) => {
  const [ann, bob] = newUsers();
  const device = await open(ann, "pc");
  await device.show(`user:${bob}`);
  await device.write("one");
  const message = device.message("one");
  await expect(message).toHaveAttribute("data-mid", "1");
  await device.field.fill("begun");
  await device.edit("one", "two");
  await expect(device.message("two")).toContainText("edited");
  await expect(device.field).toHaveValue("begun");
});

test("who is there and who types is shown", async ({ open, query }) => {
  const [ann, bob] = newUsers();
  const [one, other] = [await open(ann, "pc"), await open(bob, "mobile")];
  await other.show(`user:${ann}`);
  await other.write("hello");
  // Who is there is told to those to whom a user has written, as the database knows it.
  const conversations = async () => {
    const path = "/v1/users/{uid}/conversations";
    return (await query.get(path, { uid: bob })).items.length;
  };
  await expect.poll(conversations).toBe(1);
  await one.show(`user:${bob}`);
  await one.write("hello, too");
  await expect(one.presence).toHaveText("Online on mobile");
  await other.field.pressSequentially("I am ", { delay: 20 });
  await expect(one.typing).toHaveText(`User ${bob} is typing…`);
  await expect(one.said).toHaveText(`User ${bob} is typing…`);
  await assertAccessible(one.page);
  await other.field.press("Enter");
  await expect(one.message("I am")).toBeVisible();
  await expect(one.typing).toHaveText("");
  // Of many keys that are pressed so much is told once a second.
  await expect(async () => {
    await other.field.press("x");
    await expect(one.typing).not.toHaveText("", { timeout: 500 });
  }).toPass();
  // What is not said again ends by itself.
  await expect(one.typing).toHaveText("");
  await other.page.close();
  await expect(one.presence).toHaveText(/^Away, last seen /);
  await one.switchNetwork();
  await expect(one.presence).toBeHidden();
});

test("the key that ends what an input method composes sends nothing", async ({
  open,
}) => {
  const [ann, bob] = newUsers();
  const device = await open(ann, "pc");
  await device.show(`user:${bob}`);
  await device.field.fill("変換");
  // Safari has ended the composition by then, and others have not.
  for (const of of [{ keyCode: 229 }, { isComposing: true }]) {
    const key = { key: "Enter", bubbles: true, cancelable: true, ...of };
    await device.field.dispatchEvent("keydown", key);
  }
  await expect(device.field).toHaveValue("変換");
  await device.field.press("Enter");
  await expect(device.message("変換")).toHaveAttribute("data-mid", "1");
});

test("the words of others have their own direction, and turn nothing else", async ({
  open,
  ingest,
}) => {
  const [ann, bob] = newUsers();
  const nick = "\u202eevil\u2069";
  const profile = ingest.put("/v1/users/{uid}/profile", { uid: bob }, { nick });
  await profile;
  const device = await open(ann, "pc");
  const peer = await open(bob, "pc");
  const name = "\u202ealso \u2067evil";
  const group = { owner: bob, name, members: [ann], client_id: "evil" };
  const { gid } = await ingest.post("/v1/groups", {}, group);
  const key = `group:${gid}`;
  await expect(peer.chat(key)).toBeVisible();
  await peer.show(key);
  await peer.write("שלום עולם");
  await peer.write("plain words");
  await peer.write("\u202eturned");
  await expect(device.chat(key)).toContainText("turned");
  await device.show(key);
  const direction = (text: string): Promise<string> =>
    device
      .message(text)
      .locator(".text")
      .evaluate((node) => getComputedStyle(node).direction);
  expect(await direction("שלום")).toBe("rtl");
  expect(await direction("plain words")).toBe("ltr");
  // The last message was typed, too, and that is told once a second.
  await expect(async () => {
    await peer.field.press("x");
    const shown = "evil is typing…";
    await expect(device.typing).toHaveText(shown, { timeout: 500 });
  }).toPass();
  await device.button("Members").click();
  await expect(device.page.getByRole("dialog")).toContainText("evil,");
  // What turns is within an element that has only the stranger's words, or is left out.
  const turning = await device.page.evaluate(() => {
    const found: string[] = [];
    const all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node; (node = all.nextNode()) !== null; ) {
      const of = node.parentElement!;
      const isHidden = of.closest(".hidden") !== null;
      const isWhole = of.tagName === "P" && of.dir === "auto";
      const turns = /[\u202a-\u202e\u2066-\u2069]/.test(node.textContent!);
      if (turns && !isHidden && !isWhole) found.push(of.outerHTML);
    }
    return found;
  });
  expect(turning).toEqual([]);
  await expect(device.chat(key).locator(".name bdi")).toHaveText("also evil");
});

test("a page without https keeps nothing, sends, and says so", async ({
  page,
}) => {
  const [ann, bob] = newUsers();
  await page.addInitScript(() => {
    delete (Navigator.prototype as { locks?: unknown }).locks;
    delete (Crypto.prototype as { randomUUID?: unknown }).randomUUID;
  });
  const device = new DevicePage(page);
  await device.begin(ann, "pc");
  await expect(device.problem).toContainText("Without https nothing is stored");
  await device.show(`user:${bob}`);
  await device.write("from http");
  await expect(device.message("from http")).toHaveAttribute("data-mid", "1");
  const key = await device.createGroup("also from http", [bob]);
  expect(key).toMatch(/^group:/);
});

test("a device whose storage is full goes on, and says so", async ({
  page,
}) => {
  const [ann, bob] = newUsers();
  await page.addInitScript(() => {
    IDBObjectStore.prototype.put = () => {
      throw new DOMException("the quota is used up", "QuotaExceededError");
    };
  });
  await page.goto("/");
  const device = new DevicePage(page);
  await device.signIn(ann, "pc");
  await device.isConnected();
  await expect(device.problem).toContainText("the quota is used up");
  await device.show(`user:${bob}`);
  await device.write("not stored");
  await expect(device.message("not stored")).toHaveAttribute("data-mid", "1");
});

for (const [hash, problem] of [
  ["abc/pc", "“abc/pc” in the address is no device."],
  ["1000/tv+0/pc", "“1000/tv” in the address is no device. “0/pc”"],
  ["1000", "A device is a user's number and pc or mobile"],
  ["9223372036854775808/pc", "uid must be a decimal number from 1 to 922"],
] as const) {
  test(`the address #${hash} says what is wrong`, async ({ page }) => {
    await page.goto(`/#${hash}`);
    await expect(
      page.getByRole("alert").filter({ hasText: problem }),
    ).toBeVisible();
  });
}

test("an address of three devices says which one is left out", async ({
  page,
}) => {
  const [ann, bob] = newUsers();
  await page.goto(`/#${ann}/pc+${ann}/pc+${bob}/pc`);
  await new DevicePage(page).isConnected();
  await new DevicePage(page, "Second device").isConnected();
  const alert = page.locator("body > .problem");
  const left = `${bob}/pc is left out. The page has two devices.`;
  await expect(alert).toHaveText(left);
  await assertAccessible(page);
  await new DevicePage(page).button("Close").click();
  await expect(alert).toHaveText("");
  // Another address is another page.
  await page.goto(`/#${bob}/mobile`);
  await expect(page.getByRole("heading", { name: bob })).toBeVisible();
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
  await dialog.getByLabel("Add members").fill("Carol");
  await dialog.getByRole("button", { name: "Add" }).click();
  await expect(dialog.getByRole("alert")).toContainText("Carol is not the number of a user");
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
  await page.goto("/#1000/pc");
  await expect(page.locator("body > .problem")).toContainText("with a token");
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
  expect((await connecting).url()).toContain("uid=2999");
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
