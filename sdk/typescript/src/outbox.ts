import { splitKey, type ChatKey } from "./chat-key.js";
import type { ClientFrame } from "./frames.js";

/** So many may be unanswered at a time; the others wait. */
const WINDOW = 32;
/** The log knows a repeat for three days, unless it is told otherwise. A send that waits for longer than this may be a second message. */
const SURE_MS = 24 * 60 * 60 * 1_000;

/** A message that the user has sent, until it is known what became of it. */
export interface QueuedSend {
  kind: "send";
  /** Where it is in the queue. */
  seq: number;
  chat: ChatKey;
  /** A repeat with the same id is no second message. */
  clientMsgId: string;
  msg: string;
  /** When it was sent, milliseconds since 1970, and the newest message of the chat that was known then; absent where an earlier version has stored it. */
  sentAt?: number;
  afterMid?: number;
  /** Why it will not be done: it waits for the user, not for an answer. */
  refused?: Refusal;
}

/** Why a message will not be sent. */
export interface Refusal {
  /** `blocked`, `muted` and so on. */
  reason: string;
  /** What is wrong, for people. */
  detail: string;
}

/** A read-ack, until it is on the log. */
export interface QueuedRead {
  kind: "read";
  /** Where it is in the queue. */
  seq: number;
  chat: ChatKey;
  mid: number;
}

/** What waits for a connection, or for its answer. */
export type QueueItem = QueuedSend | QueuedRead;

/** A send that will not be done. */
export type RefusedSend = QueuedSend & { refused: Refusal };

function isRefused(item: QueueItem): item is RefusedSend {
  return item.kind === "send" && item.refused !== undefined;
}

/**
 * What a device has to tell its gateway, in order. Everything goes out again on each new connection until it is answered. Of the sends to one
 * conversation each waits until the one before it is accepted, which is when its place in the conversation is decided.
 */
export class Outbox {
  readonly #items = new Map<number, QueueItem>();
  /** Where in the queue, and whether it is accepted. */
  readonly #written = new Map<number, boolean>();
  /** These are not on the log: they were not written yet, in no life of the program, or looked for since. */
  readonly #fresh = new Set<number>();
  #changed = new Set<number>();
  #lastSeq = 0;

  /** With what was stored. */
  constructor(items: QueueItem[] = []) {
    for (const item of [...items].sort((a, b) => a.seq - b.seq)) {
      this.#items.set(item.seq, item);
      this.#lastSeq = item.seq;
    }
  }

  /** What is not answered yet, oldest first. */
  get unanswered(): QueueItem[] {
    return [...this.#items.values()].filter((item) => !isRefused(item));
  }

  /** Sends that were refused and not dismissed, oldest first. */
  get refused(): RefusedSend[] {
    return [...this.#items.values()].filter(isRefused);
  }

  /** Puts a message last, to a chat whose newest message is `afterMid`. */
  send(chat: ChatKey, clientMsgId: string, msg: string, afterMid: number): void {
    const seq = this.#nextSeq();
    const sentAt = Date.now();
    this.#fresh.add(seq);
    this.#add({ kind: "send", seq, chat, clientMsgId, msg, sentAt, afterMid });
  }

  /** Sends that may be on the log already, oldest first. */
  get repeats(): QueuedSend[] {
    const isSend = (item: QueueItem): item is QueuedSend => item.kind === "send";
    const sends = this.unanswered.filter(isSend);
    return sends.filter((item) => !this.#fresh.has(item.seq));
  }

  /** Those of them that the log may not know as repeats any more: they are to be looked for, and wait until then. */
  get unsure(): QueuedSend[] {
    return this.repeats.filter((item) => this.#isUnsure(item));
  }

  #isUnsure({ seq, sentAt }: QueuedSend): boolean {
    if (this.#fresh.has(seq) || this.#written.has(seq)) return false;
    const age = Date.now() - (sentAt ?? -Infinity);
    return age < 0 || age >= SURE_MS;
  }

  /** It was looked for, and is not on the log. */
  lookedFor(seq: number): void {
    if (this.#items.has(seq)) this.#fresh.add(seq);
  }

  /** Puts a read-ack last. Of those of a chat that were not written yet the one with the highest number stands for all. */
  read(chat: ChatKey, mid: number): void {
    let highest = mid;
    for (const item of this.#items.values()) {
      if (item.kind !== "read" || item.chat !== chat || this.#written.has(item.seq)) continue;
      highest = Math.max(highest, item.mid);
      this.#remove(item.seq);
    }
    this.#add({ kind: "read", seq: this.#nextSeq(), chat, mid: highest });
  }

  #nextSeq(): number {
    this.#lastSeq += 1;
    return this.#lastSeq;
  }

  #add(item: QueueItem): void {
    this.#items.set(item.seq, item);
    this.#changed.add(item.seq);
  }

  #remove(seq: number): void {
    this.#items.delete(seq);
    this.#written.delete(seq);
    this.#fresh.delete(seq);
    this.#changed.add(seq);
  }

  /**
   * Writes what may be written now, in order, up to what is too much at present: `write` says in how many milliseconds it is, 0 if it was written.
   * Returns that.
   */
  write(write: (frame: ClientFrame) => number): number {
    const postingTo = new Set<ChatKey>();
    for (const [seq, isAccepted] of this.#written) {
      const item = this.#items.get(seq);
      if (item?.kind === "send" && !isAccepted) postingTo.add(item.chat);
    }
    for (const item of this.#items.values()) {
      if (this.#written.size >= WINDOW) break;
      if (this.#written.has(item.seq) || isRefused(item)) continue;
      if (item.kind === "send") {
        if (postingTo.has(item.chat)) continue;
        postingTo.add(item.chat);
        if (this.#isUnsure(item)) continue;
      }
      const wait = write(frameOf(item));
      if (wait > 0) return wait;
      this.#written.set(item.seq, false);
    }
    return 0;
  }

  /** What was answered, by its `ref`: it is done. `null` where it was answered before. */
  answered(ref: string): QueueItem | null {
    const item = this.#items.get(Number(ref)) ?? null;
    if (item !== null) this.#remove(item.seq);
    return item;
  }

  /** A send that is refused stays, for the user to see, and a read-ack is done. `null` where it was answered before. */
  refuse(ref: string, refusal: Refusal): RefusedSend | QueuedRead | null {
    const item = this.#items.get(Number(ref));
    if (item === undefined || isRefused(item)) return null;
    if (item.kind === "read") {
      this.#remove(item.seq);
      return item;
    }
    const refused = { ...item, refused: refusal };
    this.#written.delete(item.seq);
    this.#add(refused);
    return refused;
  }

  /** The user knows that it was refused. */
  dismiss(clientMsgId: string): void {
    for (const item of this.refused) {
      if (item.clientMsgId === clientMsgId) this.#remove(item.seq);
    }
  }

  /** A read-ack is done once it is on the log; a send waits for its number, and the next one to its conversation does not. */
  accepted(ref: string): void {
    const seq = Number(ref);
    if (this.#items.get(seq)?.kind === "read") this.answered(ref);
    else if (this.#written.has(seq)) this.#written.set(seq, true);
  }

  /** It is refused for now, and holds back what is behind it in its conversation. */
  hold(ref: string): void {
    const seq = Number(ref);
    if (this.#written.has(seq)) this.#written.set(seq, false);
  }

  /** It is to be written again. */
  again(ref: string): void {
    this.#written.delete(Number(ref));
  }

  /** Everything is to be written again, on the next connection. */
  disconnected(): void {
    for (const seq of this.#written.keys()) this.#fresh.delete(seq);
    this.#written.clear();
  }

  /** What has changed since the last call, by its place; `null` where it is done. */
  drainChanges(): Map<number, QueueItem | null> {
    const changed = [...this.#changed];
    this.#changed = new Set();
    return new Map(changed.map((seq) => [seq, this.#items.get(seq) ?? null]));
  }

  /** Everything that waits or was refused, by its place. */
  places(): Iterable<number> {
    return this.#items.keys();
  }

  /** These changes were drained, and are not stored. */
  putBack(changes: Iterable<number>): void {
    for (const seq of changes) this.#changed.add(seq);
  }
}

function frameOf(item: QueueItem): ClientFrame {
  const [kind, id] = splitKey(item.chat);
  const ref = String(item.seq);
  if (item.kind === "read") {
    const of = kind === "user" ? { peer: id } : { gid: id };
    return { type: "read", ref, mid: item.mid, ...of };
  }
  const { clientMsgId: client_msg_id, msg } = item;
  const to = kind === "user" ? { to: id } : { gid: id };
  return { type: "send", ref, client_msg_id, msg, ...to };
}
