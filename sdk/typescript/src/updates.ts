import type { ChatKey } from "./chat-key.js";
import type { DeviceClass } from "./frames.js";

/** Something that a device has learned. */
export type Update =
  /** The stream goes on; everything is as it was on the log a moment ago. */
  | { type: "connected" }
  /** The connection is gone; it is made again. */
  | { type: "disconnected"; reason: string }
  /** A chat has changed, or is gone. */
  | { type: "chat"; chat: ChatKey }
  /** The user's own profile has changed. */
  | { type: "profile" }
  /** A sync has changed several, and the profile perhaps. */
  | { type: "synced" }
  /** A send is a message with this number; `null` for a repeat whose number is not known any more. */
  | { type: "sent"; chat: ChatKey; clientMsgId: string; mid: number | null }
  /** A send will not be done: it is in `refused` of the device until it is dismissed. `detail` says what is wrong, for people. */
  | {
      type: "refused";
      chat: ChatKey;
      clientMsgId: string;
      reason: string;
      detail: string;
    }
  /** A read-ack will not be done, and is not repeated. */
  | {
      type: "read_refused";
      chat: ChatKey;
      mid: number;
      reason: string;
      detail: string;
    }
  /** The storage fails, and why; or it works again. */
  | { type: "storage"; problem: string | null }
  /** Somebody types in a chat, at this moment. */
  | { type: "typing"; chat: ChatKey; from: string }
  /** Whether the user that the device looks at is connected: `online` is `null` where that is not known, or not to be told. */
  | {
      type: "presence";
      uid: string;
      online: boolean | null;
      classes: DeviceClass[];
      /** Of a user who is away, if it is known: RFC 3339, UTC. */
      lastSeen: string | null;
    }
  /** The gateway does not understand a frame. */
  | { type: "error"; detail: string };

/** Hands updates to whoever iterates. */
export class Updates {
  readonly #subscribers = new Set<Subscriber>();
  #ended: { error: unknown } | null = null;

  /** An iterator over the updates from now on. It ends with the device: by its error, if there is one. */
  subscribe(): AsyncIterableIterator<Update> {
    const subscriber = new Subscriber(() =>
      this.#subscribers.delete(subscriber),
    );
    if (this.#ended !== null) subscriber.end(this.#ended.error);
    else this.#subscribers.add(subscriber);
    return subscriber;
  }

  emit(update: Update): void {
    for (const subscriber of this.#subscribers) subscriber.push(update);
  }

  end(error: unknown): void {
    this.#ended = { error };
    for (const subscriber of this.#subscribers) subscriber.end(error);
    this.#subscribers.clear();
  }
}

type Result = IteratorResult<Update, undefined>;

class Subscriber implements AsyncIterableIterator<Update> {
  readonly #waiting: { update: Update }[] = [];
  /** A chat waits once, however often it changes, and so do who types and who is there. Others wait each for itself, so an iterator has to be read, or ended by `return`. */
  readonly #once = new Map<string, { update: Update }>();
  #wake: (() => void) | null = null;
  #ended: { error: unknown } | null = null;

  constructor(private readonly unsubscribe: () => void) {}

  push(update: Update): void {
    const key = keyOf(update);
    const waiting = key === null ? undefined : this.#once.get(key);
    if (waiting !== undefined) {
      waiting.update = update;
      return;
    }
    const item = { update };
    if (key !== null) this.#once.set(key, item);
    this.#waiting.push(item);
    this.#wake?.();
  }

  end(error: unknown): void {
    this.#ended ??= { error };
    this.#wake?.();
  }

  async next(): Promise<Result> {
    for (;;) {
      const item = this.#waiting.shift();
      if (item !== undefined) {
        const key = keyOf(item.update);
        if (key !== null) this.#once.delete(key);
        return { value: item.update, done: false };
      }
      if (this.#ended !== null) {
        const { error } = this.#ended;
        this.#ended = { error: null };
        if (error !== null) throw error;
        return { value: undefined, done: true };
      }
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  async return(): Promise<Result> {
    this.unsubscribe();
    this.#waiting.length = 0;
    this.end(null);
    return { value: undefined, done: true };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** What an update is about, where a later one says all that an earlier one does. */
function keyOf(update: Update): string | null {
  switch (update.type) {
    case "chat":
      return `chat ${update.chat}`;
    case "typing":
      return `typing ${update.chat} ${update.from}`;
    case "presence":
      return `presence ${update.uid}`;
    default:
      return null;
  }
}
