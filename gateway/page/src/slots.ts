import { IndexedDbStorage, newId, type DeviceClass } from "@tidemark/client";

/** So many devices of a user and class may be open in one browser. */
const SLOTS = 8;

/** A device of this browser, which nothing else here uses until it is released. */
export interface Slot {
  /** The device's id, the same each time. */
  id: string;
  /** `null` if nothing is stored of it. */
  storage: IndexedDbStorage | null;
  release(): void;
  /** Deletes what is stored; the device is closed. */
  forget(): Promise<void>;
}

/** The first device of a user and class that is not open, here or in another tab. */
export async function takeSlot(uid: string, cls: DeviceClass): Promise<Slot> {
  if (navigator.locks === undefined) return passing(cls);
  for (let number = 1; number <= SLOTS; number += 1) {
    const name = `tidemark-${uid}-${cls}-${number}`;
    const release = await lock(name);
    if (release === null) continue;
    const storage = new IndexedDbStorage(name);
    const forget = async (): Promise<void> => {
      storage.close();
      try {
        await deleted(name);
        localStorage.removeItem(name);
      } finally {
        release();
      }
    };
    const close = (): void => {
      storage.close();
      release();
    };
    return { id: deviceId(name, cls), storage, release: close, forget };
  }
  throw new Error(`${SLOTS} devices of this user and kind are open already`);
}

/** A page without https has no locks, so it does not know what other tabs use: the device is a new one each time. */
function passing(cls: DeviceClass): Slot {
  const forget = async (): Promise<void> => undefined;
  return { id: newDeviceId(cls), storage: null, release: () => undefined, forget };
}

/** Holds a lock until the returned function is called; `null` where another has it. */
function lock(name: string): Promise<(() => void) | null> {
  return new Promise((resolve, reject) => {
    const options = { ifAvailable: true };
    const held = navigator.locks.request(name, options, (taken) => {
      if (taken === null) return resolve(null);
      return new Promise<void>((release) => resolve(release));
    });
    held.catch(reject);
  });
}

function deviceId(name: string, cls: DeviceClass): string {
  const stored = localStorage.getItem(name);
  if (stored !== null) return stored;
  const made = newDeviceId(cls);
  localStorage.setItem(name, made);
  return made;
}

function newDeviceId(cls: DeviceClass): string {
  return `${cls}-${newId().slice(0, 8)}`;
}

/** Rejects if another page keeps it from being deleted for now: that happens once it is closed there. */
function deleted(name: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.deleteDatabase(name);
    request.onsuccess = () => resolve();
    request.onerror = () => reject(request.error);
    request.onblocked = () =>
      reject(new Error("another page of this browser uses what is stored"));
  });
}
