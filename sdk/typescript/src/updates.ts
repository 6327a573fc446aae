import type { ChatKey } from "./chat.js";

/** Something that a device has learned. */
export type Update =
  /** The stream goes on; everything is as it was on the log a moment ago. */
  | { type: "connected" }
  /** The connection is gone; it is made again. */
  | { type: "disconnected"; reason: string }
  /** A chat has changed, or is gone. */
  | { type: "chat"; chat: ChatKey }
  /** A sync has changed several. */
  | { type: "synced" }
  /** A send is a message with this number; `null` for a repeat whose number is not known any more. */
  | { type: "sent"; chat: ChatKey; clientMsgId: string; mid: number | null }
  /** A send will not be done. */
  | { type: "refused"; chat: ChatKey; clientMsgId: string; reason: string }
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
  readonly #waiting: Update[] = [];
  /** A chat waits once, however often it changes: what waits is bounded by what there is. */
  readonly #chats = new Set<ChatKey>();
  #wake: (() => void) | null = null;
  #ended: { error: unknown } | null = null;

  constructor(private readonly unsubscribe: () => void) {}

  push(update: Update): void {
    if (update.type === "chat") {
      if (this.#chats.has(update.chat)) return;
      this.#chats.add(update.chat);
    }
    this.#waiting.push(update);
    this.#wake?.();
  }

  end(error: unknown): void {
    this.#ended ??= { error };
    this.#wake?.();
  }

  async next(): Promise<Result> {
    for (;;) {
      const value = this.#waiting.shift();
      if (value !== undefined) {
        if (value.type === "chat") this.#chats.delete(value.chat);
        return { value, done: false };
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
