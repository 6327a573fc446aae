import type { ChatKey, Device, IngestPaths, Service } from "../src/index.js";
import type { Random } from "./random.js";

/** A device that can be closed and opened again with what it has stored. */
export interface Returning {
  uid: string;
  device: Device | null;
  open(): Promise<Device>;
}

/** Users who write, read and change messages on devices that come and go. */
export class Traffic {
  #id = 0;

  constructor(
    private readonly ingest: Service<IngestPaths>,
    private readonly devices: Returning[],
    private readonly gid: string,
    private readonly random: Random,
  ) {}

  /** One of them does something. */
  async step(): Promise<void> {
    const { random } = this;
    const one = random.pick(this.devices);
    if (one.device === null) one.device = await one.open();
    const { device } = one;
    const chats = [...device.chats.keys()];
    const step = random.below(20);
    if (step < 2) {
      one.device = null;
      await device.close();
    } else if (step < 4 && chats.length > 0) {
      // A store may be behind, and what is missing is fetched in the end.
      await device.fetch(random.pick(chats)).catch(() => undefined);
    } else if (step < 8 && chats.length > 0) {
      const key = random.pick(chats);
      const { lastMid } = device.chats.get(key)!;
      if (lastMid > 0) await device.read(key, 1 + random.below(lastMid));
    } else if (step < 11) {
      await this.#change(one.uid, device);
    } else if (step < 12) {
      const change = random.pick([{ remove: [one.uid] }, { add: [one.uid] }]);
      await this.#changeGroup(change);
    } else {
      await device.send(this.#chat(one.uid), `text ${(this.#id += 1)}`);
    }
  }

  #chat(uid: string): ChatKey {
    const peers = this.devices.map((other) => other.uid);
    const peer = this.random.pick(peers.filter((other) => other !== uid));
    return this.random.oneIn(2) ? `group:${this.gid}` : `user:${peer}`;
  }

  /** Of a message of the user's own, if the device has one. Some are refused, which is all the same here. */
  async #change(by: string, device: Device): Promise<void> {
    const { random } = this;
    const own = [...device.chats.values()].flatMap((chat) =>
      [...chat.messages.values()].filter(({ srcid }) => srcid === by),
    );
    if (own.length === 0) return;
    const { mid, destid, gid } = random.pick(own);
    const kind = random.pick(["edit", "recall", "hide", "clear"]);
    const of = gid ? { gid } : { peer: destid ?? "" };
    const msg = kind === "edit" ? { msg: `edit ${(this.#id += 1)}` } : {};
    const body = { by, ...of, mid, kind, ...msg };
    await this.ingest.post("/v1/message-changes", {}, body);
  }

  async #changeGroup(change: object): Promise<void> {
    const { gid } = this;
    const owner = this.devices[0]!.uid;
    const path = "/v1/groups/{gid}/changes";
    await this.ingest.post(path, { gid }, { by: owner, ...change });
  }

  /** All devices are there, and everything that was sent is answered. */
  async rest(until: (holds: () => boolean) => Promise<void>): Promise<void> {
    for (const one of this.devices) {
      one.device ??= await one.open();
      const { device } = one;
      await until(() => device.isConnected && device.unanswered.length === 0);
    }
  }
}
