import { ChatFetch } from "./chat-fetch.js";
import type { Chat } from "./chat.js";
import { splitKey, type ChatKey } from "./chat-key.js";
import type { ClientFrame, EventFrame, ServerFrame } from "./frames.js";
import { newId } from "./id.js";
import { Link, sleep, type LinkHandler } from "./link.js";
import {
  Outbox,
  type QueuedSend,
  type QueueItem,
  type Refusal,
  type RefusedSend,
} from "./outbox.js";
import { Reader } from "./reader.js";
import { ServiceError, type OwnProfile } from "./rest.js";
import { Saver } from "./saver.js";
import {
  checkChat,
  checkMessage,
  checkMid,
  checkSettings,
  type DeviceSettings,
} from "./settings.js";
import { DeviceState } from "./state.js";
import {
  StorageEmptied,
  type DeviceStorage,
  type StoredDevice,
} from "./storage.js";
import { Updates, type Update } from "./updates.js";

/** `ingest.max_msg_bytes` where nothing else is configured. */
const MAX_MSG_BYTES = 16_384;
/** A send that is refused for now goes out again after this. */
const RETRY_MS = 1_000;
/** A gateway passes on as much. */
const TYPING_MS = 1_000;

/** A device that is connected, or tries to be, until it is closed or told not to come back. */
export class Device {
  readonly #settings: DeviceSettings;
  readonly #state: DeviceState;
  readonly #outbox: Outbox;
  readonly #reader: Reader;
  readonly #link: Link;
  readonly #saver: Saver;
  readonly #updates = new Updates();
  readonly #closing = new AbortController();
  readonly #running: Promise<void>;
  /** Frames, syncs and pages of fetches are handled one after the other: a page that is older than what was handled before would undo it. */
  #last: Promise<unknown> = Promise.resolve();
  readonly #fetches = new Map<ChatFetch, ChatKey>();
  /** Ends what is for one connection only. */
  #connected = new AbortController();
  #isConnected = false;
  /** What is next would be too fast for the gateway. */
  #isPaced = false;
  /** Old sends of a chat are looked for. */
  #isLooking = false;
  /** What the user looks at. */
  #focus: ChatKey | null = null;
  /** The gateway knows of it. */
  #isFocusTold = true;
  #typedAt = 0;

  /**
   * Loads what is stored, and begins to connect. Where nothing can be loaded it begins with nothing, and stores nothing.
   *
   * @throws TypeError or RangeError for settings that cannot work, or a storage of another user.
   */
  static async open(settings: DeviceSettings): Promise<Device> {
    const checked = checkSettings(settings);
    let save = settings.storage?.save.bind(settings.storage);
    let stored: StoredDevice = { head: null, chats: [], queue: [] };
    try {
      stored = (await settings.storage?.load()) ?? stored;
    } catch (error) {
      save = () => Promise.reject(error);
    }
    return new Device(checked, stored, save);
  }

  private constructor(
    settings: DeviceSettings,
    { head, chats, queue }: StoredDevice,
    save: DeviceStorage["save"] | undefined,
  ) {
    const { uid } = settings;
    if (head !== null && head.uid !== uid) {
      throw new RangeError(`the storage is that of user ${head.uid}`);
    }
    this.#settings = settings;
    this.#state =
      head === null ? new DeviceState(uid) : DeviceState.of(head, chats);
    this.#outbox = new Outbox(queue);
    const { signal } = this.#closing;
    this.#reader = new Reader(settings, signal);
    this.#saver = new Saver(
      () => this.#save(save),
      (problem) => this.#updates.emit({ type: "storage", problem }),
    );
    this.#saver.saveSoon();
    this.#link = new Link(settings, this.#handler(), signal);
    this.#running = this.#run();
  }

  /** All conversations and groups, deleted contacts too. */
  get chats(): ReadonlyMap<ChatKey, Chat> {
    return this.#state.chats;
  }

  /** What others see of the device's user; `null` where the user has set nothing, or before the first sync. */
  get profile(): OwnProfile | null {
    return this.#state.profile;
  }

  /** Up to where it knows everything; `null` before the first sync. */
  get token(): string | null {
    return this.#state.token;
  }

  /** How often everything was fetched. */
  get fullSyncs(): number {
    return this.#state.fullSyncs;
  }

  /** Whether events come at present. */
  get isConnected(): boolean {
    return this.#isConnected;
  }

  /** Sends and read-acks that have not been answered, oldest first. */
  get unanswered(): QueueItem[] {
    return this.#outbox.unanswered;
  }

  /** Sends that were refused, with their texts, oldest first: they stay until they are dismissed. */
  get refused(): RefusedSend[] {
    return this.#outbox.refused;
  }

  /** Why the device is not stored at present, where it has a storage; it goes on without. */
  get storageProblem(): string | null {
    return this.#saver.problem;
  }

  /** What the device learns from now on. The iterator ends when the device is closed, and throws where it cannot go on. */
  updates(): AsyncIterableIterator<Update> {
    return this.#updates.subscribe();
  }

  /**
   * Sends a message, now or as soon as there is a connection; the update `sent` or `refused` tells the outcome.
   *
   * @returns its `client_msg_id`, once the message is stored, unless the storage fails.
   * @throws TypeError or RangeError for what cannot be sent.
   */
  async send(
    chat: ChatKey,
    msg: string,
    clientMsgId: string = newId(),
  ): Promise<string> {
    this.#checkOpen();
    checkChat(chat);
    checkMessage(msg, clientMsgId, this.#settings.maxMsgBytes ?? MAX_MSG_BYTES);
    const { lastMid = 0 } = this.chats.get(chat) ?? {};
    this.#outbox.send(chat, clientMsgId, msg, lastMid);
    this.#flush();
    await this.#saver.save();
    return clientMsgId;
  }

  /** Forgets a send that was refused: the user knows, or has sent its text again. */
  async dismiss(clientMsgId: string): Promise<void> {
    this.#checkOpen();
    this.#outbox.dismiss(clientMsgId);
    await this.#saver.save();
  }

  /** Says that the user has read a chat up to a message, now or as soon as there is a connection. */
  async read(chat: ChatKey, mid: number): Promise<void> {
    this.#checkOpen();
    checkChat(chat);
    checkMid(mid);
    this.#outbox.read(chat, mid);
    this.#flush();
    await this.#saver.save();
  }

  /** Says that the user types in a chat: for every key that is pressed, since so much is told once a second. Lost where there is no connection, or too much was written before. */
  typing(chat: ChatKey): void {
    this.#checkOpen();
    checkChat(chat);
    const [kind, id] = splitKey(chat);
    const now = Date.now();
    if (!this.#isConnected || Math.abs(now - this.#typedAt) < TYPING_MS) return;
    this.#typedAt = now;
    const to = kind === "group" ? { gid: id } : { to: id };
    this.#link.tryWrite({ type: "typing", ...to });
  }

  /** Says which chat the user looks at, or none: updates tell whether its user is there, and who types in it if it is a group. */
  focus(chat: ChatKey | null): void {
    this.#checkOpen();
    if (chat !== null) checkChat(chat);
    this.#focus = chat;
    this.#isFocusTold = false;
    this.#flush();
  }

  /** In how many milliseconds it may be written; 0 if it is told. */
  #writeFocus(): number {
    if (this.#isFocusTold) return 0;
    const [kind, id] = this.#focus === null ? [] : splitKey(this.#focus);
    const at =
      id === undefined ? {} : kind === "group" ? { gid: id } : { peer: id };
    const wait = this.#link.tryWrite({ type: "focus", ...at });
    this.#isFocusTold = wait === 0;
    return wait;
  }

  /**
   * Fetches the messages and changes of a chat that are missing. Frames wait for each page, unless a ping is among them.
   *
   * @throws ServiceError where the query API refuses or does not answer, and RangeError for what is no chat.
   */
  async fetch(key: ChatKey): Promise<void> {
    this.#checkOpen();
    checkChat(key);
    const fetch = new ChatFetch(this.#reader, this.#state, key);
    this.#fetches.set(fetch, key);
    try {
      while (await this.#exclusively(() => this.#fetchPage(fetch)));
    } finally {
      this.#fetches.delete(fetch);
    }
    if (fetch.hasBegun) this.#changed(key);
  }

  /** A pong says that everything before the ping is handled: that has its turn then, and the page another one. */
  async #fetchPage(fetch: ChatFetch): Promise<boolean> {
    this.#checkOpen();
    const isNext = await fetch.step(this.#link.pinged());
    this.#saver.saveSoon();
    return isNext;
  }

  /** Tries to connect at once, where it waits for its next attempt: for programs that know that the network is back. */
  connectNow(): void {
    this.#link.connectNow();
  }

  /** Ends the connection, once everything is stored. Calls after it throw, as they do where the device could not go on. */
  async close(): Promise<void> {
    this.#closing.abort(null);
    await this.#running;
  }

  /** Throws why the device has ended, if it has. */
  #checkOpen(): void {
    const { aborted, reason } = this.#closing.signal;
    if (aborted) throw reason ?? new Error("the device is closed");
  }

  async #run(): Promise<void> {
    try {
      await this.#link.run();
    } catch (error) {
      this.#closing.abort(error);
    }
    this.#connected.abort();
    await this.#last;
    this.#isConnected = false;
    await this.#saver.save();
    this.#saver.cancel();
    this.#updates.end(this.#closing.signal.reason);
  }

  async #save(
    save: DeviceStorage["save"] | undefined,
    isAgain = false,
  ): Promise<void> {
    const queue = this.#outbox.drainChanges();
    const changes = { ...this.#state.drainChanges(), queue };
    try {
      await save?.(changes);
    } catch (error) {
      this.#state.putBack(changes.chats.keys());
      this.#outbox.putBack(queue.keys());
      if (!(error instanceof StorageEmptied) || isAgain) throw error;
      this.#state.putBack(this.#state.chats.keys());
      this.#outbox.putBack(this.#outbox.places());
      await this.#save(save, true);
    }
  }

  #exclusively<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined);
    return done;
  }

  #handler(): LinkHandler {
    const { id, class: cls, name = "" } = this.#settings.device;
    const device = { id, class: cls, name };
    return {
      hello: () => ({ type: "hello", device, since: this.#state.token }),
      arrived: () =>
        this.#exclusively(async () => {
          for (let frame; (frame = this.#link.take()) !== undefined;) {
            await this.#take(frame);
            this.#saver.saveSoon();
          }
        }),
      disconnected: (reason: string) => {
        this.#isConnected = false;
        this.#connected.abort();
        this.#connected = new AbortController();
        this.#outbox.disconnected();
        this.#updates.emit({ type: "disconnected", reason });
      },
      probe: () => this.#reader.probe(this.#state.uid),
    };
  }

  /** Without a token the sync did not come to its end, since the device is closed. */
  #resume(): void {
    const since = this.#state.token;
    if (since !== null) this.#link.write({ type: "resume", since });
  }

  async #take(frame: ServerFrame): Promise<void> {
    switch (frame.type) {
      case "welcome":
        this.#isConnected = true;
        this.#link.welcomed(frame);
        this.#settleRepeats();
        this.#isFocusTold = this.#focus === null;
        this.#flush();
        return this.#updates.emit({ type: "connected" });
      case "sync_required":
        await sleep(frame.after_ms, this.#closing.signal);
        await this.#sync();
        return this.#resume();
      case "event":
        return this.#takeEvent(frame);
      case "head":
        return this.#changed(this.#state.takeHead(frame));
      case "ping":
        if (frame.token !== undefined) this.#state.takePing(frame.token);
        return this.#link.write({ type: "pong" });
      case "accepted":
        this.#outbox.accepted(frame.ref);
        return this.#flush();
      case "sent":
        return this.#sent(frame.ref, frame.mid ?? null);
      case "refused":
        if (frame.retry) return this.#againLater(frame.ref);
        return this.#refused(frame.ref, frame);
      case "error":
        return this.#updates.emit(frame);
      case "typing": {
        const { from, gid } = frame;
        const chat: ChatKey =
          gid === undefined ? `user:${from}` : `group:${gid}`;
        return this.#updates.emit({ type: "typing", chat, from });
      }
      case "presence": {
        const { uid, online, classes = [], last_seen = null } = frame;
        const lastSeen = last_seen;
        return this.#updates.emit({
          type: "presence",
          uid,
          online,
          classes,
          lastSeen,
        });
      }
      case "reconnect":
        return this.#link.reconnect(frame.after_ms);
      case "replaced":
      // The close that follows says the same.
    }
  }

  /** A gateway that tells the same again before it closes has brought the device no further. */
  #takeEvent(frame: EventFrame): void {
    const { profile } = this.#state;
    const isNew = !this.#state.knows(frame);
    this.#changed(this.#state.takeEvent(frame));
    if (this.#state.profile !== profile) this.#updates.emit({ type: "profile" });
    if (isNew) this.#link.getsOn();
  }

  #changed(chat: ChatKey | null): void {
    if (chat === null) return;
    for (const [fetch, key] of this.#fetches) {
      if (key === chat) fetch.changed();
    }
    this.#updates.emit({ type: "chat", chat });
  }

  #sent(ref: string, mid: number | null): void {
    const item = this.#outbox.answered(ref);
    if (item !== null) this.#link.getsOn();
    this.#flush();
    if (item?.kind !== "send") return;
    const { chat, clientMsgId } = item;
    this.#updates.emit({ type: "sent", chat, clientMsgId, mid });
  }

  #againLater(ref: string): void {
    this.#outbox.hold(ref);
    const { signal } = this.#connected;
    void sleep(RETRY_MS, signal).then(() => {
      // Everything goes out again on the next connection.
      if (signal.aborted) return;
      this.#outbox.again(ref);
      this.#flush();
    });
  }

  #refused(ref: string, { reason, detail }: Refusal): void {
    const item = this.#outbox.refuse(ref, { reason, detail });
    this.#flush();
    if (item === null) return;
    const { chat } = item;
    this.#updates.emit(
      item.kind === "read"
        ? { type: "read_refused", chat, mid: item.mid, reason, detail }
        : { type: "refused", chat, clientMsgId: item.clientMsgId, reason, detail },
    );
  }

  /** Writes what waits, as fast as the gateway takes it. */
  #flush(): void {
    if (!this.#isConnected || this.#isPaced) return;
    void this.#lookForOld();
    const write = (frame: ClientFrame) => this.#link.tryWrite(frame);
    const wait = this.#writeFocus() || this.#outbox.write(write);
    if (wait === 0) return;
    this.#isPaced = true;
    void sleep(wait, this.#connected.signal).then(() => {
      this.#isPaced = false;
      this.#flush();
    });
  }

  /** What the device has itself is on the log. Its answer was lost with an earlier connection. */
  #settleRepeats(): void {
    for (const { chat, seq, clientMsgId } of this.#outbox.repeats) {
      const mid = this.#state.midOf(chat, clientMsgId);
      if (mid !== null) this.#sent(String(seq), mid);
    }
  }

  /** Looks for sends that are too old to be known as repeats, one chat after the other: where they are on the log they would be there twice. */
  async #lookForOld(): Promise<void> {
    const [first] = this.#outbox.unsure;
    if (first === undefined || this.#isLooking) return;
    this.#isLooking = true;
    const { chat } = first;
    const sends = this.#outbox.unsure.filter((item) => item.chat === chat);
    const found = await this.#find(chat, sends);
    for (const { seq, clientMsgId } of found === null ? [] : sends) {
      const mid = found?.get(clientMsgId);
      if (mid === undefined) this.#outbox.lookedFor(seq);
      else this.#sent(String(seq), mid);
    }
    this.#isLooking = false;
    this.#flush();
  }

  /** Which of these are on the log. `null` where the connection ends before that is known. */
  async #find(
    chat: ChatKey,
    sends: QueuedSend[],
  ): Promise<Map<string, number> | null> {
    const { signal } = this.#connected;
    const ids = new Set(sends.map((item) => item.clientMsgId));
    const above = Math.min(...sends.map((item) => item.afterMid ?? 0));
    while (!signal.aborted) {
      try {
        return await this.#reader.find(this.#state, chat, ids, above);
      } catch (error) {
        const status = error instanceof ServiceError ? error.status : 0;
        // Who may not read the chat does not write to it: the gateway says so.
        if (status === 403 || status === 404) return new Map();
        await sleep(RETRY_MS, signal);
      }
    }
    return null;
  }

  async #sync(): Promise<void> {
    await this.#reader.sync(this.#state, () => {
      for (const fetch of this.#fetches.keys()) fetch.changed();
      this.#saver.saveSoon();
    });
    this.#updates.emit({ type: "synced" });
  }
}
