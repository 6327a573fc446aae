import { splitKey, type ChatKey, type Message } from "@tidemark/client";
import { chatName, countsText } from "./chat-list.js";
import { Composer } from "./composer.js";
import { button, element, setText } from "./dom.js";
import { openMembers } from "./group-dialogs.js";
import { MessageList } from "./message-list.js";
import { awaitOutcome, errorText } from "./outcomes.js";
import type { Session } from "./session.js";

/** The chat that is open: its name, its messages, and where one writes. */
export class ChatView {
  readonly node: HTMLElement;
  readonly #name = element("h3", {});
  readonly #about = element("p", { class: "about" });
  readonly #members: HTMLButtonElement;
  readonly #messages: MessageList;
  readonly #composer: Composer;
  readonly #hint = element("p", { class: "hint" }, "Choose a conversation.");
  readonly #open: HTMLElement;

  constructor(
    private readonly session: Session,
    back: () => void,
  ) {
    const { user } = session;
    this.#members = button("Members", {}, () => {
      if (session.shown) openMembers(session, this.node, session.shown);
    });
    const title = element("div", { class: "grow" }, this.#name, this.#about);
    const toList = button("Back", { class: "back" }, back);
    const bar = element("div", { class: "bar" }, toList, title, this.#members);
    this.#messages = new MessageList(session, {
      recall: (message) => this.#change(message, "recall"),
      edit: (message) => this.#composer.edit(message),
    });
    this.#composer = new Composer(
      (text) => this.#send(text),
      (message, text) => this.#change(message, "edit", text),
    );
    const parts = [bar, this.#messages.node, this.#composer.node];
    this.#open = element("div", { class: "open" }, ...parts);
    const label = `Conversation on ${user.cls} of user ${user.uid}`;
    const attributes = { class: "view", "aria-label": label };
    this.node = element("section", attributes, this.#hint, this.#open);
  }

  render(): void {
    const { shown } = this.session;
    this.#open.hidden = shown === null;
    this.#hint.hidden = shown !== null;
    if (shown === null) return this.#messages.render();
    const name = chatName(this.session, shown);
    setText(this.#name, name);
    setText(this.#about, this.#aboutText(shown));
    const chat = this.session.device.chats.get(shown);
    this.#members.hidden = chat?.with.type !== "group" || chat.with.dissolved;
    this.#composer.show(shown, name);
    this.#messages.render();
  }

  focus(): void {
    this.#composer.focus();
  }

  #aboutText(key: ChatKey): string {
    const chat = this.session.device.chats.get(key);
    if (chat === undefined) return "Nothing yet";
    const { pc, mobile } = chat.unread;
    const isRead = pc === 0 && mobile === 0;
    const unread = isRead
      ? "Everything is read"
      : `Unread: ${countsText(chat)}`;
    if (chat.with.type === "user") {
      return chat.with.flags.blocked ? `${unread}. Blocked` : unread;
    }
    const { memberCount, dissolved } = chat.with;
    return dissolved
      ? "This group has ended"
      : `${memberCount} members. ${unread}`;
  }

  #send(text: string): void {
    const { shown } = this.session;
    if (shown === null) return;
    this.session.send(shown, text).catch((error: unknown) => {
      this.session.tell(`Not sent: ${errorText(error)}`);
      this.#composer.restore(text);
    });
  }

  #change(message: Message, kind: "recall" | "edit", msg?: string): void {
    const { session } = this;
    const { shown } = session;
    if (shown === null) return;
    const [of, id] = splitKey(shown);
    const where = of === "group" ? { gid: id } : { peer: id };
    const change = { by: session.uid, mid: message.mid, kind, ...where };
    const body = msg === undefined ? change : { ...change, msg };
    const work = async (): Promise<void> => {
      const path = "/v1/message-changes";
      await awaitOutcome(
        session.query,
        await session.ingest.post(path, {}, body),
      );
    };
    work().catch((error: unknown) => {
      const what = kind === "recall" ? "recalled" : "edited";
      this.session.tell(`Not ${what}: ${errorText(error)}`);
    });
  }
}
