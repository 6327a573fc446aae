import type { EventFrame } from "../src/frames.js";
import type {
  ChangeItem,
  ChangesPage,
  Message,
  MessagesPage,
} from "../src/rest.js";

/** Puts an event on the log, or one that is not the user's; its offset. */
export type Append = (body: Omit<EventFrame, "type" | "at"> | null) => number;

type Change = ChangeItem & { msg?: string };

/** The messages and changes of a conversation or group. */
export class Contents {
  readonly messages: Message[] = [];
  readonly #hidden = new Set<number>();
  readonly #changes: ChangeItem[] = [];
  #chg = 0;
  /** The last change that the user has to know of. */
  knownChg = 0;
  #clock = 0;

  get lastMid(): number {
    return this.messages.length;
  }

  #now(): string {
    this.#clock += 1;
    return `2026-11-26T00:00:00.${this.#clock}Z`;
  }

  send(from: { srcid: string; destid?: string; gid?: string }) {
    const mid = this.lastMid + 1;
    const msg = `text ${mid}`;
    const client_msg_id = `id-${mid}`;
    const message = { ...from, mid, msg, ts: this.#now(), client_msg_id };
    this.messages.push(message);
    return message;
  }

  /** A change; `isKnown`: the user learns of it. `null` where it changes nothing. */
  change(kind: string, mid: number, isKnown: boolean): Change | null {
    const message = this.messages[mid - 1]!;
    const isGone = message.recalled === true || this.#hidden.has(mid);
    if (isGone && kind !== "clear") return null;
    this.#chg += 1;
    const ts = this.#now();
    const change: Change = { chg: this.#chg, mid, kind, ts };
    if (!isKnown) return change;
    this.knownChg = this.#chg;
    this.#changes.push(change);
    if (kind === "recall") {
      this.messages[mid - 1] = { ...message, recalled: true, msg: "" };
    } else if (kind === "edit") {
      change.msg = `edited ${this.#chg}`;
      this.messages[mid - 1] = { ...message, msg: change.msg, edited_ts: ts };
    } else {
      const first = kind === "clear" ? 1 : mid;
      for (let gone = first; gone <= mid; gone += 1) this.#hidden.add(gone);
    }
    return change;
  }

  /** What the user sees above `mid`. */
  visible(above: number): Message[] {
    return this.messages.filter(
      ({ mid }) => mid > above && !this.#hidden.has(mid),
    );
  }

  /** The newest, where the user sees it. */
  last(above = 0): Message | null {
    const message = this.messages.at(-1);
    const isSeen = this.visible(above).at(-1)?.mid === this.lastMid;
    return message !== undefined && isSeen ? message : null;
  }

  messagesPage(after: number, limit: number): MessagesPage {
    const all = this.visible(after);
    const items = structuredClone(all.slice(0, limit));
    const isLast = all.length <= limit;
    return { items, next: isLast ? null : `after_mid=${items.at(-1)?.mid}` };
  }

  changesPage(after: number, limit: number, joinMid: number): ChangesPage {
    const all = this.#changes.filter(
      ({ chg, mid }) => chg > after && mid > joinMid,
    );
    const items = structuredClone(all.slice(0, limit));
    for (const item of items) {
      const message = this.messages[item.mid - 1]!;
      const isSeen = !message.recalled && !this.#hidden.has(item.mid);
      // An edit has the newest text, if there is one.
      if (item.kind !== "edit") continue;
      if (isSeen) item.msg = message.msg;
      else delete item.msg;
    }
    const isLast = all.length <= limit;
    return { items, next: isLast ? null : `after_chg=${items.at(-1)?.chg}` };
  }
}
