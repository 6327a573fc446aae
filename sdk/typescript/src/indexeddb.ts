import type { Chat } from "./chat.js";
import type { QueueItem } from "./outbox.js";
import type { StoredHead } from "./state.js";
import {
  StorageEmptied,
  type DeviceStorage,
  type StorageChanges,
  type StoredDevice,
} from "./storage.js";

const STORES = ["head", "chats", "queue"] as const;
type StoreName = (typeof STORES)[number];
/** Browsers open a database at once, or wait for other pages without a word. */
const OPEN_MS = 10_000;

/** Keeps a device in a database of the browser. */
export class IndexedDbStorage implements DeviceStorage {
  /** `null` while the database is not open: browsers close it whenever they like. */
  #database: IDBDatabase | null = null;
  /** It was loaded, and not closed since: what is there is the device's. */
  #isLoaded = false;

  /** A database for each device, for example `tidemark-1000-phone-1`. */
  constructor(
    private readonly name: string,
    private readonly factory: IDBFactory = indexedDB,
  ) {}

  async load(): Promise<StoredDevice> {
    const { database } = await this.#open();
    const transaction = database.transaction(STORES, "readonly");
    const all = <T>(store: StoreName): Promise<T[]> =>
      result<T[]>(transaction.objectStore(store).getAll());
    const [heads, chats, queue] = await Promise.all([
      all<StoredHead>("head"),
      all<Chat>("chats"),
      all<QueueItem>("queue"),
    ]);
    this.#isLoaded = true;
    return { head: heads[0] ?? null, chats, queue };
  }

  async save(changes: StorageChanges): Promise<void> {
    if (!this.#isLoaded) throw new Error("save before load");
    const transaction = this.#begin();
    if (transaction !== null) return this.#write(transaction, changes);
    // Later the device changes them.
    const copy = structuredClone(changes);
    const { database, isNew } = await this.#open();
    if (isNew) throw new StorageEmptied();
    await this.#write(database.transaction(STORES, "readwrite"), copy);
  }

  /** Ends the use of the database. */
  close(): void {
    this.#isLoaded = false;
    this.#forget();
  }

  /** `null` where the database has to be opened again. */
  #begin(): IDBTransaction | null {
    try {
      return this.#database?.transaction(STORES, "readwrite") ?? null;
    } catch (error) {
      // It is closed, and nobody has said so.
      if (!isNamed(error, "InvalidStateError")) throw error;
      this.#forget();
      return null;
    }
  }

  async #write(
    transaction: IDBTransaction,
    changes: StorageChanges,
  ): Promise<void> {
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
    try {
      await completed(transaction);
    } catch (error) {
      // The browser may have lost the database: the next save opens it again.
      this.#forget();
      throw error;
    }
  }

  #forget(): void {
    this.#database?.close();
    this.#database = null;
  }

  /** The database, and whether it was made just now. */
  async #open(): Promise<{ database: IDBDatabase; isNew: boolean }> {
    if (this.#database !== null) {
      return { database: this.#database, isNew: false };
    }
    const request = this.factory.open(this.name, 1);
    let isNew = false;
    request.onupgradeneeded = () => {
      isNew = true;
      for (const store of STORES) request.result.createObjectStore(store);
    };
    const database = await opened(request);
    this.#database = database;
    const forget = (): void => {
      if (this.#database === database) this.#forget();
    };
    database.onclose = forget;
    // Another page deletes it, or has one of a later version, and waits until all others have closed theirs.
    database.onversionchange = () => {
      database.close();
      forget();
    };
    return { database, isNew };
  }
}

function isNamed(error: unknown, name: string): boolean {
  return error instanceof Error && error.name === name;
}

/** Rejects if other pages keep it from being opened. */
function opened(request: IDBOpenDBRequest): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const fail = (error: unknown): void => {
      clearTimeout(timer);
      reject(error);
      // Nobody waits for it any more, and others may wait for its end.
      request.onsuccess = () => request.result.close();
    };
    const inUse = (): void =>
      fail(new Error("the database does not open: another page may be using it"));
    const timer = setTimeout(inUse, OPEN_MS);
    request.onblocked = inUse;
    request.onerror = () => fail(request.error);
    request.onsuccess = () => {
      clearTimeout(timer);
      resolve(request.result);
    };
  });
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
