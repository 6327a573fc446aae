import type { DevicePage } from "./device-page.js";
import { expect, newUsers, test } from "./fixtures.js";

test("devices end the same, whatever is away meanwhile", async ({
  open,
  stack,
}) => {
  const [ann, bob] = newUsers();
  const [pc, phone, peer] = [
    await open(ann, "pc"),
    await open(ann, "mobile"),
    await open(bob, "pc"),
  ];
  const [toBob, toAnn] = [`user:${bob}`, `user:${ann}`];

  await test.step("all are there", async () => {
    await peer.show(toAnn);
    for (const text of ["one", "two", "three"]) await peer.write(text);
    await expect(phone.chat(toBob)).toContainText("three");
    await pc.show(toBob);
    await pc.write("four");
    await expect(peer.message("four")).toBeVisible();
  });

  await test.step("the phone is offline, and its user writes", async () => {
    await phone.switchNetwork();
    await expect(phone.state).toContainText("offline");
    await phone.show(toBob);
    await phone.write("from the train");
    await expect(phone.message("from the train")).toContainText(
      "Waiting for a connection",
    );
    await peer.recall("two");
    await peer.edit("three", "thirteen");
    await expect(pc.message("thirteen")).toContainText("edited");
    const lunch = await pc.createGroup("Lunch", [bob]);
    await pc.write("at noon?");
    await peer.show(lunch);
    await peer.write("at one");
    await expect(pc.message("at one")).toBeVisible();
    await pc.recall("at noon?");
    await expect(peer.message("recalled")).toHaveCount(1);
  });

  await test.step("MariaDB stands still, and messages go on", async () => {
    await stack.kill("mariadb", "SIGSTOP");
    try {
      await peer.write("is the database there?");
      await expect(pc.message("is the database there?")).toBeVisible();
      await phone.switchNetwork();
      await pc.write("no");
      await expect(peer.message("no")).toBeVisible();
    } finally {
      await stack.kill("mariadb", "SIGCONT");
    }
    await phone.isConnected();
    await expect(phone.message("from the train")).not.toContainText("Waiting");
  });

  await test.step("the gateway dies, and everybody writes", async () => {
    await stack.kill("gateway");
    for (const device of [pc, phone, peer]) {
      await expect(device.state).toContainText("connecting");
    }
    await pc.write("from the pc");
    await phone.write("from the phone");
    await peer.write("from the peer");
    await expect(pc.message("from the pc")).toContainText(
      "Waiting for a connection",
    );
    await stack.up();
    for (const device of [pc, phone, peer]) await device.isConnected();
    await expect(pc.message("from the peer")).toBeVisible();
    await expect(peer.message("from the pc")).toBeVisible();
  });

  await assertSame([pc, phone, await open(ann, "pc")]);
  await assertSame([peer, await open(bob, "mobile")]);
});

/** All devices of a user show the same: two conversations of six messages each. The last one began with nothing. */
async function assertSame(devices: DevicePage[]): Promise<void> {
  const fresh = devices.at(-1)!;
  await expectEqual(devices, (device) => device.listed());
  const chats = await fresh.listed();
  expect(chats).toHaveLength(2);
  for (const { key } of chats) {
    for (const device of devices) await device.show(key!);
    await expectEqual(devices, (device) => device.messages());
    expect(await fresh.messages()).toHaveLength(6);
  }
  await expectEqual(devices, (device) => device.listed());
}

async function expectEqual(
  devices: DevicePage[],
  shown: (device: DevicePage) => Promise<unknown>,
): Promise<void> {
  await expect(async () => {
    const [first, ...others] = await Promise.all(devices.map(shown));
    for (const other of others) expect(other).toEqual(first);
  }).toPass({ timeout: 30_000 });
}
