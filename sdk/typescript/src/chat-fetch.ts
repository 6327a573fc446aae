import { missing, type ChangesAfter, type Chat } from "./chat.js";
import type { ChatKey } from "./chat-key.js";
import type { Reader } from "./reader.js";
import type { DeviceState } from "./state.js";

/** What is missing of a chat, page by page: its messages, then the changes. Frames may be handled between two steps. */
export class ChatFetch {
  /** Who leaves a group and joins it again has another chat, of which everything is missing. */
  #chat: Chat | null = null;
  /** Its messages were fetched up to here. */
  #mid = 0;
  /** Where the next page of changes begins; `null` while messages are fetched. */
  #after: ChangesAfter | null = null;
  /** The page that is asked for. It is taken by a call, which says whether there is another. */
  #page: Promise<() => boolean> | null = null;

  constructor(
    private readonly reader: Reader,
    private readonly state: DeviceState,
    private readonly key: ChatKey,
  ) {}

  /** Something was missing. */
  get hasBegun(): boolean {
    return this.#chat !== null;
  }

  /** The chat has changed: a page that was asked for before would undo that. */
  changed(): void {
    this.#page = null;
  }

  /** Takes a page, unless it is interrupted before: then the page is waited for in the next step. Whether there is another step. */
  async step(interrupted: Promise<void>): Promise<boolean> {
    const chat = this.state.chats.get(this.key);
    if (chat === undefined) return false;
    if (chat !== this.#chat || chat.fetched.mid < this.#mid) {
      if (missing(chat) === null) return false;
      this.#chat = chat;
      this.#after = null;
    }
    this.#mid = chat.fetched.mid;
    this.#page ??= this.#ask(chat);
    const take = await Promise.race([this.#page, interrupted]);
    if (take === undefined) return true;
    this.#page = null;
    return take();
  }

  #ask(chat: Chat): Promise<() => boolean> {
    const after = this.#after;
    const page = after === null ? this.#messages(chat) : this.#changes(after);
    // Nobody waits for it between two steps.
    page.catch(() => undefined);
    return page;
  }

  async #messages(chat: Chat): Promise<() => boolean> {
    const { state, key } = this;
    const page = await this.reader.messages(state, key, chat.fetched.mid);
    return () => {
      if (state.takeMessages(key, page) !== null) return true;
      this.#mid = chat.fetched.mid;
      this.#after = missing(chat);
      return this.#after !== null;
    };
  }

  async #changes(after: ChangesAfter): Promise<() => boolean> {
    const { state, key } = this;
    const page = await this.reader.changes(state, key, after);
    return () => {
      this.#after = state.takeMessageChanges(key, after, page);
      return this.#after !== null;
    };
  }
}
