import { missing, splitKey, type Chat, type ChatKey } from "./chat.js";
import type { ServerFrame } from "./frames.js";
import { Link, sleep, type LinkHandler } from "./link.js";
import { Outbox, type QueueItem } from "./outbox.js";
import { Reader } from "./reader.js";
import { Saver } from "./saver.js";
import {
  checkId,
  checkMessage,
  checkSettings,
  type DeviceSettings,
} from "./settings.js";
import { DeviceState } from "./state.js";
import type { StoredDevice } from "./storage.js";
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
  /** Frames and fetches are handled one after the other: a page that is older than what was handled before would undo it. */
  #last: Promise<unknown> = Promise.resolve();
  #isConnected = false;
  /** What the user looks at. */
  #focus: ChatKey | null = null;
  #typedAt = 0;

  /**
   * Loads what is stored, and begins to connect.
   *
   * @throws RangeError for settings that cannot work, and what the storage throws.
   */
  static async open(settings: DeviceSettings): Promise<Device> {
    checkSettings(settings);
    const stored = await settings.storage?.load();
    return new Device(settings, stored ?? { head: null, chats: [], queue: [] });
  }

  private constructor(
    settings: DeviceSettings,
    { head, chats, queue }: StoredDevice,
  ) {
    const { uid, storage } = settings;
    if (head !== null && head.uid !== uid) {
      throw new RangeError(`the storage is that of user ${head.uid}`);
    }
    this.#settings = settings;
    this.#state =
      head === null ? new DeviceState(uid) : DeviceState.of(head, chats);
    this.#outbox = new Outbox(queue);
    const { signal } = this.#closing;
    this.#reader = new Reader(settings, signal);
    const save = async () =>
      storage?.save({
        ...this.#state.drainChanges(),
        queue: this.#outbox.drainChanges(),
      });
    this.#saver = new Saver(save, (error) => this.#closing.abort(error));
    this.#link = new Link(settings, this.#handler(), signal);
    this.#running = this.#run();
  }

  /** All conversations and groups, deleted contacts too. */
  get chats(): ReadonlyMap<ChatKey, Chat> {
    return this.#state.chats;
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
    return this.#outbox.items;
  }

  /** What the device learns from now on. The iterator ends when the device is closed, and throws where it cannot go on. */
  updates(): AsyncIterableIterator<Update> {
    return this.#updates.subscribe();
  }

  /**
   * Sends a message, now or as soon as there is a connection; the update `sent` or `refused` tells the outcome.
   *
   * @returns its `client_msg_id`, once the message is stored.
   * @throws RangeError for what cannot be sent, and what the storage throws.
   */
  async send(
    chat: ChatKey,
    msg: string,
    clientMsgId: string = crypto.randomUUID(),
  ): Promise<string> {
    this.#checkOpen();
    checkId("chat", splitKey(chat)[1]);
    checkMessage(msg, clientMsgId, this.#settings.maxMsgBytes ?? MAX_MSG_BYTES);
    this.#outbox.send(chat, clientMsgId, msg);
    this.#flush();
    await this.#saver.save();
    return clientMsgId;
  }

  /** Says that the user has read a chat up to a message, now or as soon as there is a connection. */
  async read(chat: ChatKey, mid: number): Promise<void> {
    this.#checkOpen();
    checkId("chat", splitKey(chat)[1]);
    checkId("mid", String(mid));
    this.#outbox.read(chat, mid);
    this.#flush();
    await this.#saver.save();
  }

  /** Says that the user types in a chat: for every key that is pressed, since so much is told once a second. Lost where there is no connection. */
  typing(chat: ChatKey): void {
    this.#checkOpen();
    const [kind, id] = splitKey(chat);
    checkId("chat", id);
    const now = Date.now();
    if (!this.#isConnected || Math.abs(now - this.#typedAt) < TYPING_MS) return;
    this.#typedAt = now;
    const to = kind === "group" ? { gid: id } : { to: id };
    this.#link.write({ type: "typing", ...to });
  }

  /** Says which chat the user looks at, or none: updates tell whether its user is there, and who types in it if it is a group. */
  focus(chat: ChatKey | null): void {
    this.#checkOpen();
    if (chat !== null) checkId("chat", splitKey(chat)[1]);
    this.#focus = chat;
    if (this.#isConnected) this.#writeFocus();
  }

  #writeFocus(): void {
    const [kind, id] = this.#focus === null ? [] : splitKey(this.#focus);
    const at =
      id === undefined ? {} : kind === "group" ? { gid: id } : { peer: id };
    this.#link.write({ type: "focus", ...at });
  }

  /**
   * Fetches the messages and changes of a chat that are missing. Frames wait meanwhile.
   *
   * @throws ServiceError where the query API refuses or does not answer.
   */
  fetch(key: ChatKey): Promise<void> {
    return this.#exclusively(async () => {
      this.#checkOpen();
      const chat = this.#state.chats.get(key);
      if (chat === undefined || missing(chat) === null) return;
      await this.#reader.fetch(this.#state, key);
      this.#saver.saveSoon();
      this.#updates.emit({ type: "chat", chat: key });
    });
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
    await this.#last;
    this.#isConnected = false;
    // What fails here is the reason already, or becomes it.
    await this.#saver.save().catch(() => undefined);
    this.#updates.end(this.#closing.signal.reason);
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
      take: (frame: ServerFrame) =>
        this.#exclusively(async () => {
          await this.#take(frame);
          this.#saver.saveSoon();
        }),
      disconnected: (reason: string) => {
        this.#isConnected = false;
        this.#outbox.disconnected();
        this.#updates.emit({ type: "disconnected", reason });
      },
      probe: () => this.#exclusively(() => this.#sync()),
    };
  }

  /** Without a token the sync did not come to its end, since the device is closed. */
  #resume(): void {
    const since = this.#state.token;
    if (since !== null) this.#link.write({ type: "resume", since });
  }

  async #take(frame: ServerFrame): Promise<void> {
    // A welcome alone is not enough: a gateway may close for what is sent behind it.
    if (["event", "sent", "ping"].includes(frame.type)) this.#link.getsOn();
    switch (frame.type) {
      case "welcome":
        this.#isConnected = true;
        this.#flush();
        if (this.#focus !== null) this.#writeFocus();
        return this.#updates.emit({ type: "connected" });
      case "sync_required":
        await sleep(frame.after_ms, this.#closing.signal);
        await this.#sync();
        return this.#resume();
      case "event":
        return this.#changed(this.#state.takeEvent(frame));
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
        return this.#refused(frame.ref, frame.reason, frame.retry ?? false);
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

  #changed(chat: ChatKey | null): void {
    if (chat !== null) this.#updates.emit({ type: "chat", chat });
  }

  #sent(ref: string, mid: number | null): void {
    const item = this.#outbox.answered(ref);
    this.#flush();
    if (item?.kind !== "send") return;
    const { chat, clientMsgId } = item;
    this.#updates.emit({ type: "sent", chat, clientMsgId, mid });
  }

  #refused(ref: string, reason: string, retry: boolean): void {
    if (retry) {
      void sleep(RETRY_MS, this.#closing.signal).then(() => {
        this.#outbox.again(ref);
        this.#flush();
      });
      return;
    }
    const item = this.#outbox.answered(ref);
    this.#flush();
    if (item?.kind !== "send") return;
    const { chat, clientMsgId } = item;
    this.#updates.emit({ type: "refused", chat, clientMsgId, reason });
  }

  #flush(): void {
    if (!this.#isConnected) return;
    for (const frame of this.#outbox.takeFrames()) this.#link.write(frame);
  }

  async #sync(): Promise<void> {
    await this.#reader.sync(this.#state, () => this.#saver.saveSoon());
    this.#updates.emit({ type: "synced" });
  }
}
