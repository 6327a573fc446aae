import { DEVICE_CLASSES, type DeviceClass } from "../src/frames.js";
import type { ListedGroup, Message } from "../src/rest.js";
import { Contents, type Append } from "./model-contents.js";
import { ME } from "./model-direct.js";
import type { Random } from "./random.js";

const OTHERS = ["1001", "1002"];

/** A group that the device's user joins and leaves. */
export class GroupModel {
  readonly contents = new Contents();
  name = "Lunch";
  /** The user's role; `null` while he is no member. */
  role: string | null = null;
  wasMember = false;
  joinMid = 0;
  read = { pc: 0, mobile: 0 };
  /** The offset of the last event of the group, or of the user's membership. */
  pos = -1;

  constructor(readonly gid: string) {}

  get partition(): number {
    return Number(this.gid) % 64;
  }

  /** Something happens. */
  step(random: Random, append: Append): void {
    const step = random.below(10);
    const isMember = this.role !== null;
    const authors = isMember ? [ME, ...OTHERS] : OTHERS;
    const author = random.pick(authors);
    const sent = this.contents.visible(this.joinMid);
    if (step < 5) this.#message(author, append);
    else if (step < 6 || !isMember) this.#members(random, append);
    else if (step < 8) this.#read(random, append);
    else if (sent.length > 0) this.#change(random, sent, append);
  }

  #message(srcid: string, append: Append): void {
    const message = this.contents.send({ srcid, gid: this.gid });
    if (srcid === ME) this.#readTo(message.mid);
    this.#append({ message }, append);
  }

  #append(body: Parameters<Append>[0], append: Append): void {
    const offset = append(this.role === null ? null : body);
    this.pos = offset;
  }

  #members(random: Random, append: Append): void {
    const joined = this.role === null;
    const choices = joined ? ["member"] : ["admin", "member", null];
    const role = random.pick(choices);
    const { lastMid: last_mid } = this.contents;
    if (joined) this.joinMid = last_mid;
    if (joined) this.read = { pc: last_mid, mobile: last_mid };
    this.name = `Lunch ${last_mid}`;
    const members = [{ uid: ME, role, muted: false, joined }];
    const of = { whole_history: false, dissolved: false, member_count: 3 };
    const others = { owner: "1001", open: true, muted: false };
    const made = { by: "1001", kind: joined ? "add" : "set_role" };
    const settings = { name: this.name, ...of, ...others, ...made };
    const change = { gid: this.gid, ...settings, last_mid, members };
    this.role = "member";
    this.#append({ group_change: change }, append);
    this.role = role;
    this.wasMember = true;
  }

  #read(random: Random, append: Append): void {
    const mid = 1 + random.below(this.contents.lastMid + 1);
    const device = random.pick(DEVICE_CLASSES);
    if (mid <= this.read[device] || mid > this.contents.lastMid) return;
    this.read[device] = mid;
    const body = { uid: ME, gid: this.gid, device, mid };
    this.#append({ read_position: body }, append);
  }

  #change(random: Random, sent: Message[], append: Append): void {
    const { mid, srcid } = random.pick(sent);
    const kind = random.pick(["edit", "recall", "delete", "hide", "clear"]);
    const isPrivate = kind === "hide" || kind === "clear";
    const change = this.contents.change(kind, mid, true);
    if (change === null) return;
    if (kind === "clear") this.#readTo(mid);
    const by = isPrivate ? ME : srcid;
    const body = { by, gid: this.gid, ...change };
    this.#append({ message_change: body }, append);
  }

  #readTo(mid: number): void {
    for (const device of DEVICE_CLASSES) {
      this.read[device] = Math.max(this.read[device], mid);
    }
  }

  /** As a sync returns it. */
  row(): ListedGroup {
    const { lastMid, knownChg } = this.contents;
    const unread = (device: DeviceClass): number => lastMid - this.read[device];
    return {
      gid: this.gid,
      name: this.name,
      role: this.role ?? "",
      muted: false,
      dissolved: false,
      member_count: 3,
      whole_history: false,
      join_mid: this.joinMid,
      last: this.contents.last(this.joinMid),
      last_mid: lastMid,
      chg: knownChg,
      unread: { pc: unread("pc"), mobile: unread("mobile") },
      read_mid: { ...this.read },
      at: `${this.partition}:${this.pos}`,
    };
  }

  /** What the user sees. */
  visible(): Message[] {
    return this.contents.visible(this.joinMid);
  }
}
