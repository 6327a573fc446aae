import type { Chat } from "./chat.js";
import type { QueueItem } from "./outbox.js";
import type { StoredHead } from "./state.js";
import type { DeviceStorage, StorageChanges, StoredDevice } from "./storage.js";

const STORES = ["head", "chats", "queue"] as const;
type StoreName = (typeof STORES)[number];

/** Keeps a device in a database of the browser. */
export class IndexedDbStorage implements DeviceStorage {
  #database: IDBDatabase | null = null;

  /** A database for each device, for example `tidemark-1000-phone-1`. */
  constructor(
    private readonly name: string,
    private readonly factory: IDBFactory = indexedDB,
  ) {}

  async load(): Promise<StoredDevice> {
    const database = await this.#open();
    const transaction = database.transaction(STORES, "readonly");
    const all = <T>(store: StoreName): Promise<T[]> =>
      result<T[]>(transaction.objectStore(store).getAll());
    const [heads, chats, queue] = await Promise.all([
      all<StoredHead>("head"),
      all<Chat>("chats"),
      all<QueueItem>("queue"),
    ]);
    return { head: heads[0] ?? null, chats, queue };
  }

  async save(changes: StorageChanges): Promise<void> {
    if (this.#database === null) throw new Error("save before load");
    const transaction = this.#database.transaction(STORES, "readwrite");
    const put = (
      name: StoreName,
      values: Iterable<[IDBValidKey, object | null]>,
    ): void => {
      const store = transaction.objectStore(name);
      for (const [key, value] of values) {
        if (value === null) store.delete(key);
        else store.put(value, key);
      }
    };
    try {
      put("head", [["head", changes.head]]);
      put("chats", changes.chats);
      put("queue", changes.queue);
    } catch (error) {
      // What was put before it would be stored by itself.
      transaction.abort();
      throw error;
    }
    await completed(transaction);
  }

  /** Ends the use of the database. */
  close(): void {
    this.#database?.close();
    this.#database = null;
  }

  async #open(): Promise<IDBDatabase> {
    if (this.#database !== null) return this.#database;
    const request = this.factory.open(this.name, 1);
    request.onupgradeneeded = () => {
      for (const store of STORES) request.result.createObjectStore(store);
    };
    this.#database = await result(request);
    return this.#database;
  }
}

function result<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function completed(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error);
  });
}
