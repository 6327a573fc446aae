import {
  Device,
  Service,
  missing,
  splitKey,
  type Chat,
  type ChatKey,
  type DeviceClass,
  type IngestPaths,
  type QueryPaths,
  type QueuedSend,
  type RefusedSend,
  type Update,
} from "@tidemark/client";
import { Activity } from "./activity.js";
import { Names } from "./names.js";
import { Network } from "./network.js";
import { awaitOutcome, errorText, type Accepted } from "./outcomes.js";
import { takeSlot, type Slot } from "./slots.js";
import type { PageSettings } from "./settings.js";

/** How soon it is tried again to fetch what the stores do not have yet. */
const RETRY_MS = 500;

/** Who uses a device. */
export interface User {
  uid: string;
  cls: DeviceClass;
  token?: string;
}

/** Which message is changed, and by whom. */
type ChangedMessage = { by: string; mid: number } & (
  { gid: string } | { peer: string }
);

/** A device, and what is shown of it. */
export class Session {
  readonly names: Names;
  readonly ingest: Service<IngestPaths>;
  readonly query: Service<QueryPaths>;
  readonly activity: Activity;
  /** Why there is no connection. */
  problem = "";
  /** Why messages of the chat that is open are not here. */
  behind = "";
  /** What the user has tried last and could not do. */
  notice = "";
  /** The device has ended, and does not come back by itself. */
  hasEnded = false;
  #shown: ChatKey | null = null;
  #isCompleting = false;
  readonly #read = new Map<ChatKey, number>();
  readonly #listeners = new Set<(update: Update | null) => void>();

  static async open(settings: PageSettings, user: User): Promise<Session> {
    const slot = await takeSlot(user.uid, user.cls);
    try {
      const network = new Network();
      const { uid, cls, token } = user;
      const device = await Device.open({
        uid,
        device: { id: slot.id, class: cls, name: "chat in a browser" },
        gateways: [location.origin.replace(/^http/, "ws")],
        query: settings.query,
        maxMsgBytes: settings.max_msg_bytes,
        WebSocket: network.WebSocket,
        fetch: network.fetch,
        ...(slot.storage === null ? {} : { storage: slot.storage }),
        ...(token === undefined ? {} : { token }),
      });
      return new Session(settings, user, slot, network, device);
    } catch (error) {
      slot.release();
      throw error;
    }
  }

  private constructor(
    settings: PageSettings,
    readonly user: User,
    private readonly slot: Slot,
    readonly network: Network,
    readonly device: Device,
  ) {
    const { token } = user;
    const { fetch } = network;
    const called = { fetch, token };
    this.ingest = new Service({ url: settings.ingest, ...called });
    this.query = new Service({ url: settings.query, ...called });
    this.names = new Names(this.query, () => this.#changed(null));
    this.activity = new Activity(user.uid, () => this.#changed(null));
    void this.#follow();
  }

  /** Calls back for each update of the device, and with `null` for anything else that is shown. */
  onChange(listener: (update: Update | null) => void): void {
    this.#listeners.add(listener);
  }

  /** What is sent is kept over a reload. */
  get isStored(): boolean {
    return this.slot.storage !== null;
  }

  get uid(): string {
    return this.user.uid;
  }

  /** The chat that is open. What is missing of it is fetched, and it is read as long as the page is visible. */
  get shown(): ChatKey | null {
    return this.#shown;
  }

  set shown(chat: ChatKey | null) {
    // Throws for what is no chat.
    if (!this.hasEnded) this.device.focus(chat);
    this.#shown = chat;
    this.behind = "";
    this.tell("");
    void this.complete();
  }

  /** Does something for the user; whether it was done. Why not is shown until he does something else. */
  async attempt(
    failure: string,
    work: () => Promise<unknown>,
  ): Promise<boolean> {
    this.tell("");
    try {
      const done = work();
      this.#changed(null);
      await done;
      return true;
    } catch (error) {
      this.tell(`${failure}: ${errorText(error)}`);
      return false;
    }
  }

  /** Changes a message of the chat that is open, and waits until the log has decided; whether it was done. */
  async changeMessage(
    mid: number,
    failure: string,
    post: (of: ChangedMessage) => Promise<Accepted>,
  ): Promise<boolean> {
    if (this.#shown === null) return false;
    const [kind, id] = splitKey(this.#shown);
    const to = kind === "group" ? { gid: id } : { peer: id };
    return this.attempt(failure, async () => {
      const accepted = await post({ by: this.uid, mid, ...to });
      await awaitOutcome(this.query, accepted);
    });
  }

  /** Sends a message; whether it is in the queue. */
  send(chat: ChatKey, msg: string): Promise<boolean> {
    return this.attempt("Not sent", () => this.device.send(chat, msg));
  }

  /** Sends the text of a message that was refused. */
  async sendAgain({ chat, msg, clientMsgId }: RefusedSend): Promise<void> {
    if (await this.send(chat, msg)) await this.dismiss(clientMsgId);
  }

  /** Forgets a send that was refused. */
  async dismiss(clientMsgId: string): Promise<void> {
    await this.attempt("Not removed", () => this.device.dismiss(clientMsgId));
  }

  /** The user types in the chat that is open. */
  types(): void {
    if (this.#shown !== null && !this.hasEnded) this.device.typing(this.#shown);
  }

  /** Sends of a chat that were refused. */
  refused(chat: ChatKey): RefusedSend[] {
    return this.device.refused.filter((item) => item.chat === chat);
  }

  /** What waits for an answer, oldest first. A message that is here already may be answered a moment later. */
  waiting(chat: ChatKey): QueuedSend[] {
    const isSend = (item: { kind: string }): item is QueuedSend =>
      item.kind === "send";
    const sends = this.device.unanswered.filter(isSend);
    const messages = this.device.chats.get(chat)?.messages.values() ?? [];
    const here = new Set(Array.from(messages, (one) => one.client_msg_id));
    return sends.filter(
      (item) => item.chat === chat && !here.has(item.clientMsgId),
    );
  }

  /** Shows what could not be done, or nothing any more. */
  tell(notice: string): void {
    this.notice = notice;
    this.#changed(null);
  }

  /** Switches the device's network. What waits goes out at once when it is on again. */
  switchNetwork(): void {
    if (this.network.isOn) this.network.switchOff();
    else {
      this.network.switchOn();
      this.device.connectNow();
    }
    this.#changed(null);
  }

  /** Ends the device. It comes back with what it knew. */
  async close(): Promise<void> {
    await this.device.close();
    this.slot.release();
  }

  /** Ends the device, and deletes what it knew and what it has not sent. */
  async forget(): Promise<void> {
    await this.device.close();
    await this.slot.forget();
  }

  /** Fetches what is missing of the chat that is shown; then the user has read it. */
  async complete(): Promise<void> {
    const key = this.#shown;
    const chat = key && this.device.chats.get(key);
    if (!chat || this.#isCompleting || this.hasEnded) return;
    if (missing(chat) !== null) {
      if (this.device.isConnected) await this.#fetch(chat.key);
      return;
    }
    await this.#readUpTo(chat);
  }

  async #fetch(key: ChatKey): Promise<void> {
    this.#isCompleting = true;
    try {
      await this.device.fetch(key);
      this.behind = "";
    } catch (error) {
      this.behind = `Not all messages are here: ${errorText(error)}`;
    }
    this.#changed(null);
    this.#isCompleting = false;
    const chat = this.device.chats.get(key);
    const isBehind = chat !== undefined && missing(chat) !== null;
    if (isBehind) setTimeout(() => void this.complete(), RETRY_MS);
    else await this.complete();
  }

  async #readUpTo(chat: Chat): Promise<void> {
    const isOwn = chat.key === `user:${this.uid}`;
    const isUnread = chat.lastMid > 0 && chat.unread[this.user.cls] !== 0;
    const isNew = this.#read.get(chat.key) !== chat.lastMid;
    const isVisible = document.visibilityState === "visible";
    if (isOwn || !isUnread || !isNew || !isVisible) return;
    this.#read.set(chat.key, chat.lastMid);
    await this.device.read(chat.key, chat.lastMid);
  }

  async #follow(): Promise<void> {
    try {
      for await (const update of this.device.updates()) {
        this.#take(update);
        this.#changed(update);
        void this.complete();
      }
    } catch (error) {
      this.problem = errorText(error);
    }
    this.hasEnded = true;
    this.#changed(null);
  }

  #take(update: Update): void {
    if (update.type === "connected") this.problem = "";
    if (update.type === "disconnected") this.problem = update.reason;
    this.activity.take(update);
    if (update.type !== "chat") return;
    const last = this.device.chats.get(update.chat)?.last;
    if (last) this.activity.sent(update.chat, last.srcid);
  }

  #changed(update: Update | null): void {
    for (const listener of this.#listeners) listener(update);
  }
}
