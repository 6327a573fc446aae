export { missing } from "./chat.js";
export { splitKey, type ChatKey } from "./chat-key.js";
export type { Chat, Fetched, WithGroup, WithUser } from "./chat.js";
export { ConnectionEnded } from "./connection.js";
export { Device } from "./device.js";
export { DEVICE_CLASSES } from "./frames.js";
export type { DeviceClass, Flags, PerDevice } from "./frames.js";
export { newId } from "./id.js";
export { IndexedDbStorage } from "./indexeddb.js";
export type {
  QueuedRead,
  QueuedSend,
  QueueItem,
  Refusal,
  RefusedSend,
} from "./outbox.js";
export { Service, ServiceError } from "./rest.js";
export type {
  ChangeItem,
  IngestPaths,
  Message,
  OwnProfile,
  Problem,
  QueryPaths,
  ServiceSettings,
} from "./rest.js";
export { checkChat, isUid } from "./settings.js";
export type { TokenSource } from "./checks.js";
export type { DeviceSettings } from "./settings.js";
export type { StoredHead } from "./state.js";
export { MemoryStorage, StorageEmptied } from "./storage.js";
export type { DeviceStorage, StorageChanges, StoredDevice } from "./storage.js";
export { TokenError } from "./token.js";
export type { Update } from "./updates.js";
