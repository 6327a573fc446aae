import { splitKey, type ChatKey, type Message } from "@tidemark/client";
import { chatName, countsText } from "./chat-list.js";
import { Composer } from "./composer.js";
import { button, element, setLine, setText, theirs } from "./dom.js";
import { openMembers } from "./group-dialogs.js";
import { MessageList } from "./message-list.js";
import type { Session } from "./session.js";
import { timeText } from "./times.js";

/** The chat that is open: its name, its messages, and where one writes. */
export class ChatView {
  readonly node: HTMLElement;
  readonly #name = element("h3", {});
  readonly #about = element("p", { class: "about" });
  readonly #presence = element("p", { class: "presence" });
  readonly #typing = element("p", { class: "typing" });
  readonly #members: HTMLButtonElement;
  readonly #messages: MessageList;
  readonly #composer: Composer;
  readonly #hint = element("p", { class: "hint" }, "Choose a conversation.");
  readonly #open: HTMLElement;

  constructor(
    private readonly session: Session,
    title: string,
    back: () => void,
  ) {
    this.#members = button("Members", {}, () => {
      if (session.shown) openMembers(session, this.node, session.shown);
    });
    const status = [this.#presence, this.#about];
    const below = element("div", { class: "status" }, ...status);
    const who = element("div", { class: "grow" }, this.#name, below);
    const toList = button("Back", { class: "back" }, back);
    const bar = element("div", { class: "bar" }, toList, who, this.#members);
    this.#messages = new MessageList(session, {
      recall: (message) => void this.#change(message, "recall"),
      edit: (message) => this.#composer.edit(message),
    });
    this.#composer = new Composer(
      (text) => this.#send(text),
      (message, text) => this.#change(message, "edit", text),
      () => session.types(),
    );
    const { node } = this.#composer;
    const parts = [bar, this.#messages.node, this.#typing, node];
    this.#open = element("div", { class: "open" }, ...parts);
    const label = `${title}: conversation`;
    const attributes = { class: "view", "aria-label": label };
    this.node = element("section", attributes, this.#hint, this.#open);
  }

  render(): void {
    const { shown } = this.session;
    this.#open.hidden = shown === null;
    this.#hint.hidden = shown !== null;
    if (shown === null) return this.#messages.render();
    const name = chatName(this.session, shown);
    setLine(this.#name, theirs(name));
    setText(this.#about, this.#aboutText(shown));
    this.#showPresence(shown);
    setLine(this.#typing, ...typingLine(this.session, shown));
    const chat = this.session.device.chats.get(shown);
    this.#members.hidden = chat?.with.type !== "group" || chat.with.dissolved;
    this.#composer.show(shown, name);
    this.#messages.render();
  }

  focus(): void {
    this.#composer.focus();
  }

  #showPresence(key: ChatKey): void {
    const [kind, id] = splitKey(key);
    const isOther = kind === "user" && id !== this.session.uid;
    const presence = isOther ? this.session.activity.presence(id) : null;
    this.#presence.hidden = presence === null;
    if (presence === null) return;
    const { online, classes, lastSeen } = presence;
    const seen = lastSeen === null ? "" : `, last seen ${timeText(lastSeen)}`;
    const text = online ? `Online on ${classes.join(" and ")}` : `Away${seen}`;
    setText(this.#presence, text);
    this.#presence.dataset["state"] = online ? "online" : "away";
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

  async #send(text: string): Promise<boolean> {
    const { shown } = this.session;
    return shown === null ? false : this.session.send(shown, text);
  }

  async #change(
    message: Message,
    kind: "recall" | "edit",
    msg?: string,
  ): Promise<boolean> {
    const { session } = this;
    const failure = kind === "recall" ? "Not recalled" : "Not edited";
    return session.changeMessage(message.mid, failure, (of) => {
      const body = msg === undefined ? { ...of, kind } : { ...of, kind, msg };
      return session.ingest.post("/v1/message-changes", {}, body);
    });
  }
}

/** Who types in a chat. */
export function typingLine(session: Session, chat: ChatKey): (Node | string)[] {
  const typists = session.activity.typists(chat);
  const [one, two, ...more] = typists.map((uid) => session.names.of(uid));
  if (one === undefined) return [];
  if (two === undefined) return [theirs(one), " is typing…"];
  return more.length > 0
    ? [`${typists.length} people are typing…`]
    : [theirs(one), " and ", theirs(two), " are typing…"];
}
