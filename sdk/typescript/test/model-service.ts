import type { Chat, ChatKey } from "../src/chat.js";
import type { EventFrame, HeadFrame } from "../src/frames.js";
import type { SyncAnswer } from "../src/rest.js";
import { PARTITIONS, SyncToken } from "../src/token.js";
import { DirectModel, ME } from "./model-direct.js";
import { GroupModel } from "./model-group.js";
import type { Random } from "./random.js";

type Model = DirectModel | GroupModel;

/** The log, and what a query API and a gateway make of it for one user. */
export class ServiceModel {
  readonly models = new Map<ChatKey, Model>();
  /** By partition; `null` for what is not the user's. */
  readonly #log: (EventFrame | null)[][] = [];
  isAtRest = false;
  /** The sync under way: what its pages have yet to return, and its token at the end. */
  #pages: { rows: SyncAnswer[]; next: string; full: boolean } | null = null;

  constructor(private readonly random: Random) {
    for (let i = 0; i < PARTITIONS; i += 1) this.#log.push([]);
    // Some are in the same partition.
    for (const peer of ["1001", "1002", "1065"]) {
      this.models.set(`user:${peer}`, new DirectModel(peer));
    }
    for (const gid of ["5000", "5001", "5064", "2001"]) {
      this.models.set(`group:${gid}`, new GroupModel(gid));
    }
  }

  /** Something happens in one of the chats, until everything comes to rest. */
  step(): void {
    if (this.isAtRest) return;
    const model = this.random.pick([...this.models.values()]);
    const partition = this.#log[model.partition]!;
    model.step(this.random, (body) => {
      const offset = partition.length;
      const at = `${model.partition}:${offset}`;
      const frame = structuredClone({ type: "event", at, ...body } as const);
      partition.push(body === null ? null : frame);
      return offset;
    });
  }

  /** The token of an answer: some store was behind, and the rows may be newer. Never less than what was known. */
  #token(since: string | null): SyncToken {
    const token = SyncToken.of(1, (partition) => {
      const { length } = this.#log[partition]!;
      const lag = this.random.oneIn(3) ? this.random.below(4) : 0;
      return Math.max(0, length - lag);
    });
    if (since !== null) token.raise(SyncToken.parse(since));
    return token;
  }

  /** A page of a sync. */
  sync(since: string | null): SyncAnswer {
    if (this.#pages === null) {
      const next = this.#token(since).toString();
      const rows = this.#rows(since === null ? null : SyncToken.parse(since));
      this.#pages = { rows, next, full: since === null };
    }
    const { rows, next, full } = this.#pages;
    const page: SyncAnswer = {
      conversations: [],
      groups: [],
      left: [],
      more: true,
      full,
      next: since ?? SyncToken.of(1, () => 0).toString(),
    };
    for (const row of rows.splice(0, 1 + this.random.below(3))) {
      page.conversations.push(...row.conversations);
      page.groups.push(...row.groups);
      page.left.push(...row.left);
    }
    if (rows.length > 0) return page;
    this.#pages = null;
    return structuredClone({ ...page, more: false, next });
  }

  #rows(since: SyncToken | null): SyncAnswer[] {
    const rows: SyncAnswer[] = [];
    const none = { conversations: [], groups: [], left: [] };
    const rest = { more: false, full: false, next: "" };
    for (const model of this.models.values()) {
      const { pos, partition } = model;
      if (pos < 0 || pos < (since?.get(partition) ?? 0)) continue;
      if (model instanceof DirectModel) {
        rows.push({ ...none, conversations: [model.row()], ...rest });
      } else if (model.role !== null) {
        rows.push({ ...none, groups: [model.row()], ...rest });
      } else if (model.wasMember && since !== null) {
        rows.push({ ...none, left: [model.gid], ...rest });
      }
    }
    return rows;
  }

  /** A stream of a gateway from a token on. */
  stream(since: string): StreamModel {
    return new StreamModel(this.#log, SyncToken.parse(since), this.random);
  }

  /** What a device has to know in the end: compare with {@link known}. */
  expected(): Record<ChatKey, unknown> {
    const chats: Record<ChatKey, unknown> = {};
    for (const [key, model] of this.models) {
      if (model instanceof GroupModel && model.role === null) continue;
      if (model.pos < 0) continue;
      const { last, last_mid, unread, read_mid, ...row } = model.row();
      const seen = { last: last && [last.mid, last.msg, !!last.recalled] };
      const counts = { last_mid, unread, read_mid };
      const name = "name" in row ? row.name : null;
      const own = "role" in row ? row.role : [row.peer_n, row.deleted];
      const messages = model.visible();
      chats[key] = { ...seen, ...counts, name, own, messages };
    }
    return chats;
  }

  /** What a device knows, in the form of {@link expected}. */
  known(chats: Iterable<Chat>): Record<ChatKey, unknown> {
    const known: Record<ChatKey, unknown> = {};
    for (const chat of chats) {
      const { last, lastMid: last_mid, unread, readMid: read_mid } = chat;
      const seen = { last: last && [last.mid, last.msg, !!last.recalled] };
      const counts = { last_mid, unread, read_mid };
      const { with: other } = chat;
      const name = other.type === "group" ? other.name : null;
      const own =
        other.type === "group" ? other.role : [other.peerN, other.deleted];
      const messages = [...chat.messages.values()].sort(
        (a, b) => a.mid - b.mid,
      );
      known[chat.key] = { ...seen, ...counts, name, own, messages };
    }
    return known;
  }
}

/** What a gateway sends on one connection. */
export class StreamModel {
  /** What a head has stood for. */
  readonly #collapsed = new Set<EventFrame>();

  constructor(
    private readonly log: (EventFrame | null)[][],
    private readonly sent: SyncToken,
    private readonly random: Random,
  ) {}

  /** The next frame of some partition: an event, or a head for several of a group. `null` where nothing is left. */
  next(): EventFrame | HeadFrame | null {
    const waiting = this.log.flatMap((events, partition) =>
      events.length > this.sent.get(partition) ? [partition] : [],
    );
    while (waiting.length > 0) {
      const partition = this.random.pick(waiting);
      const frame = this.#next(partition);
      if (frame !== null) return frame;
      waiting.splice(waiting.indexOf(partition), 1);
    }
    return null;
  }

  #next(partition: number): EventFrame | HeadFrame | null {
    const events = this.log[partition]!;
    for (;;) {
      const offset = this.sent.get(partition);
      const frame = events[offset];
      if (frame === undefined) return null;
      this.sent.advance(partition, offset + 1);
      if (frame === null || this.#collapsed.has(frame)) continue;
      return this.#headFrom(frame, events.slice(offset + 1)) ?? frame;
    }
  }

  /** A head in place of an event and some of those of its group behind it, as far as none of them must be sent itself. */
  #headFrom(
    first: EventFrame,
    behind: (EventFrame | null)[],
  ): HeadFrame | null {
    const head = headOf(first);
    if (head === null || !this.random.oneIn(4)) return null;
    for (const frame of behind) {
      if (frame === null || groupOf(frame) !== head.gid) continue;
      const other = headOf(frame);
      if (other === null || this.random.oneIn(4)) break;
      head.mid = Math.max(head.mid, other.mid);
      head.chg = Math.max(head.chg, other.chg);
      head.own_mid = Math.max(head.own_mid, other.own_mid);
      head.until = other.until;
      this.#collapsed.add(frame);
    }
    return head;
  }

  /** An event that was sent before. */
  repeat(): EventFrame | null {
    const sent = this.log.flatMap((events, partition) =>
      events.slice(0, this.sent.get(partition)),
    );
    const event = sent.length === 0 ? null : this.random.pick(sent);
    return event && this.#collapsed.has(event) ? null : event;
  }

  /** The token of a ping. */
  ping(): string {
    return this.sent.toString();
  }
}

function groupOf(frame: EventFrame): string | null {
  const { message, message_change, read_position, group_change } = frame;
  const body = message ?? message_change ?? read_position ?? group_change;
  return body?.gid ?? null;
}

/** The head that stands for an event; `null` where it concerns the user more than other members. */
function headOf(frame: EventFrame): HeadFrame | null {
  const { message, message_change: change, at } = frame;
  const gid = groupOf(frame);
  const isPrivate = change?.kind === "hide" || change?.kind === "clear";
  const mid = (message ?? change)?.mid;
  if (gid === null || mid === undefined || isPrivate) return null;
  const own_mid = message?.srcid === ME ? mid : 0;
  return { type: "head", at, until: at, gid, mid, chg: change?.chg ?? 0, own_mid };
}
