import { DEVICE_CLASSES, type DeviceClass } from "../src/frames.js";
import type { Message, SyncedConversation } from "../src/rest.js";
import { Contents, type Append } from "./model-contents.js";
import type { Random } from "./random.js";

export const ME = "1000";

/** A conversation between the device's user and another, counted message by message. */
export class DirectModel {
  readonly contents = new Contents();
  readonly flags = {
    favourite: false,
    pinned: false,
    muted: false,
    blocked: false,
  };
  readonly read = { pc: 0, mobile: 0 };
  deletedMid = 0;
  /** The offset of the last event that the user has to know of. */
  pos = -1;

  constructor(readonly peer: string) {}

  get partition(): number {
    return (Number(ME) + Number(this.peer)) % 64;
  }

  /** Something happens. */
  step(random: Random, append: Append): void {
    const { contents } = this;
    const author = random.pick([ME, this.peer]);
    const sent = contents.messages.filter(({ srcid }) => srcid === author);
    const step = random.below(8);
    if (step < 3 || sent.length === 0) this.#message(author, append);
    else if (step < 4) this.#read(random, append);
    else if (step < 5) this.#contact(random, append);
    else {
      const kinds = ["edit", "recall", "delete", "hide", "clear"] as const;
      const kind = random.pick(kinds);
      const { mid } = random.pick(sent);
      const isPrivate = kind === "hide" || kind === "clear";
      const change = contents.change(kind, mid, !isPrivate || author === ME);
      if (change === null) return;
      const n = this.peerMessagesTo(mid);
      const peer = author === ME ? this.peer : ME;
      const body = { by: author, peer, ...change, n };
      const isMine = !isPrivate || author === ME;
      const at = append(isMine ? { message_change: body } : null);
      if (!isMine) return;
      this.pos = at;
      if (kind === "clear") this.#readTo(mid);
    }
  }

  #message(srcid: string, append: Append): void {
    const destid = srcid === ME ? this.peer : ME;
    const message = this.contents.send({ srcid, destid });
    const { messages } = this.contents;
    const n = messages.filter((other) => other.srcid === srcid).length;
    this.pos = append({ message: { ...message, n } });
  }

  #read(random: Random, append: Append): void {
    const mid = 1 + random.below(this.contents.lastMid);
    const device = random.pick(DEVICE_CLASSES);
    if (mid <= this.read[device]) return;
    this.read[device] = mid;
    const n = this.peerMessagesTo(mid);
    const body = { uid: ME, peer: this.peer, device, mid, n };
    this.pos = append({ read_position: body });
  }

  #contact(random: Random, append: Append): void {
    const flag = random.pick(["favourite", "pinned", "muted"] as const);
    this.flags[flag] = !this.flags[flag];
    const mid = this.contents.lastMid;
    const isDeleted = random.oneIn(3);
    const deleted = { deleted_mid: mid, deleted_n: this.peerMessagesTo(mid) };
    const body = { uid: ME, peer: this.peer, ...this.flags };
    const change = isDeleted ? { ...body, ...deleted } : body;
    if (isDeleted) this.deletedMid = mid;
    if (isDeleted) this.#readTo(mid);
    this.pos = append({ contact_change: change });
  }

  #readTo(mid: number): void {
    for (const device of DEVICE_CLASSES) {
      this.read[device] = Math.max(this.read[device], mid);
    }
  }

  private peerMessagesTo(mid: number): number {
    const { messages } = this.contents;
    return messages.filter((one) => one.srcid === this.peer && one.mid <= mid)
      .length;
  }

  /** As a sync returns it. */
  row(): SyncedConversation {
    const { lastMid, messages, knownChg } = this.contents;
    const unread = (device: DeviceClass): number =>
      messages.filter(
        ({ srcid, mid }) => srcid === this.peer && mid > this.read[device],
      ).length;
    return {
      peer: this.peer,
      last: this.contents.last(),
      last_mid: lastMid,
      chg: knownChg,
      ...this.flags,
      unread: { pc: unread("pc"), mobile: unread("mobile") },
      read_mid: { ...this.read },
      peer_n: this.peerMessagesTo(lastMid),
      at: `${this.partition}:${this.pos}`,
      deleted: this.deletedMid > 0 && this.deletedMid === lastMid,
    };
  }

  /** What the user sees. */
  visible(): Message[] {
    return this.contents.visible(0);
  }
}
