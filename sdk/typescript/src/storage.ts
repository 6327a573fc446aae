import type { Chat } from "./chat.js";
import type { ChatKey } from "./chat-key.js";
import type { QueueItem } from "./outbox.js";
import type { StoredHead } from "./state.js";

/** What a storage has of a device. */
export interface StoredDevice {
  /** `null` where there is nothing yet. */
  head: StoredHead | null;
  chats: Chat[];
  queue: QueueItem[];
}

/** What is to be stored. What is `null` is to be deleted. */
export interface StorageChanges {
  head: StoredHead;
  chats: Map<ChatKey, Chat | null>;
  queue: Map<number, QueueItem | null>;
}

/** A storage has lost what it had: the device stores everything again, at once. */
export class StorageEmptied extends Error {
  override name = "StorageEmptied";

  constructor() {
    super("what was stored is gone");
  }
}

/** Where a device keeps what it knows and what it has yet to send: one storage for each device. */
export interface DeviceStorage {
  /** Called once, first. Where it throws, nothing is stored: what is there already would not match. */
  load(): Promise<StoredDevice>;
  /**
   * Stores all of the changes or nothing: a token without what it covers would lose that for good. What was not stored comes again with the next
   * changes. The device changes the chats further as soon as this returns its promise, so it takes a copy before. Where everything that was stored
   * before is gone, it throws {@link StorageEmptied}: the changes alone would be a token without what it covers.
   */
  save(changes: StorageChanges): Promise<void>;
}

/** Keeps a device as long as the program runs. */
export class MemoryStorage implements DeviceStorage {
  #head: StoredHead | null = null;
  readonly #chats = new Map<ChatKey, Chat>();
  readonly #queue = new Map<number, QueueItem>();

  async load(): Promise<StoredDevice> {
    const chats = [...this.#chats.values()];
    const queue = [...this.#queue.values()];
    return structuredClone({ head: this.#head, chats, queue });
  }

  async save(changes: StorageChanges): Promise<void> {
    const { head, chats, queue } = structuredClone(changes);
    this.#head = head;
    put(this.#chats, chats);
    put(this.#queue, queue);
  }
}

function put<K, V>(into: Map<K, V>, changes: Map<K, V | null>): void {
  for (const [key, value] of changes) {
    if (value === null) into.delete(key);
    else into.set(key, value);
  }
}
