import {
  DEVICE_CLASSES,
  type Chat,
  type ChatKey,
  type DeviceClass,
  type Message,
  type QueuedSend,
  type RefusedSend,
} from "@tidemark/client";
import {
  button,
  element,
  KeyedList,
  setLine,
  setText,
  theirs,
  type Row,
} from "./dom.js";
import { reasonText } from "./outcomes.js";
import { Reactions } from "./reactions.js";
import type { Session } from "./session.js";
import { timeText } from "./times.js";

/** So many messages are shown at first, and so many more each time. */
const PAGE = 50;

/** A line of a conversation. */
type Line =
  | { type: "message"; key: string; message: Message }
  | { type: "read"; key: string; classes: DeviceClass[] }
  | { type: "waiting"; key: string; send: QueuedSend }
  | { type: "refused"; key: string; send: RefusedSend };

/** What can be done with a message. */
export interface MessageActions {
  recall(message: Message): void;
  edit(message: Message): void;
}

/** The messages of the chat that is open: those on the log, then those that wait or were refused. */
export class MessageList {
  readonly node: HTMLElement;
  readonly #scroll: HTMLElement;
  readonly #earlier: HTMLButtonElement;
  readonly #list = element("ol", {
    class: "messages",
    "aria-label": "Messages",
  });
  #lines!: KeyedList<Line>;
  #chat: ChatKey | null = null;
  #count = PAGE;

  constructor(
    private readonly session: Session,
    private readonly actions: MessageActions,
  ) {
    this.#earlier = button(
      "Show earlier messages",
      { class: "earlier" },
      () => {
        const { scrollHeight } = this.#scroll;
        this.#count += PAGE;
        this.render();
        this.#scroll.scrollTop += this.#scroll.scrollHeight - scrollHeight;
      },
    );
    // Focusable, so that the keyboard scrolls it.
    this.#scroll = element(
      "div",
      {
        class: "scroll",
        tabindex: "0",
        role: "group",
        "aria-label": "Messages",
      },
      this.#earlier,
      this.#list,
    );
    this.node = this.#scroll;
    this.#reset(null);
  }

  render(): void {
    const { shown } = this.session;
    if (shown !== this.#chat) this.#reset(shown);
    const { scrollTop, scrollHeight, clientHeight } = this.#scroll;
    const isAtEnd = scrollTop + clientHeight >= scrollHeight - 40;
    const all = shown === null ? [] : this.#linesOf(shown);
    this.#lines.update(all.slice(-this.#count));
    this.#earlier.hidden = all.length <= this.#count;
    if (isAtEnd) this.#scroll.scrollTop = this.#scroll.scrollHeight;
  }

  #reset(chat: ChatKey | null): void {
    this.#chat = chat;
    this.#count = PAGE;
    this.#list.replaceChildren();
    this.#lines = new KeyedList<Line>(
      this.#list,
      (line) => line.key,
      (line) => this.#row(line),
    );
  }

  #linesOf(key: ChatKey): Line[] {
    const chat = this.session.device.chats.get(key);
    const lines = chat === undefined ? [] : messageLines(chat);
    for (const send of this.session.waiting(key)) {
      lines.push({ type: "waiting", key: `send ${send.clientMsgId}`, send });
    }
    for (const send of this.session.refused(key)) {
      lines.push({ type: "refused", key: `no ${send.clientMsgId}`, send });
    }
    return lines;
  }

  #row(line: Line): Row<Line> {
    switch (line.type) {
      case "message":
        return this.#messageRow(line.message);
      case "waiting":
        return this.#waitingRow(line.send);
      case "refused":
        return this.#refusedRow(line.send);
      case "read": {
        const node = element("li", { class: "read" });
        const update = (now: Line): void => {
          if (now.type !== "read") return;
          setText(node, `Read up to here on ${now.classes.join(" and ")}`);
        };
        return { node, update };
      }
    }
  }

  #messageRow(first: Message): Row<Line> {
    const { session, actions } = this;
    const isOwn = first.srcid === session.uid;
    let message = first;
    // Where there are two, the side says who it is; screen readers are told.
    const isPlain = isOwn || typeof first.gid !== "string";
    const author = element("span", { class: isPlain ? "hidden" : "author" });
    const text = messageText();
    const time = element("time", { datetime: first.ts }, timeText(first.ts));
    const state = element("span", { class: "changed" });
    const edit = button("Edit", { class: "quiet" }, () =>
      actions.edit(message),
    );
    const recall = button("Recall", { class: "quiet" }, () =>
      actions.recall(message),
    );
    const reactions = new Reactions(session, first.mid);
    const does = element("span", { class: "actions" }, edit, recall);
    const parts = [time, state, reactions.node, does];
    const foot = element("div", { class: "foot" }, ...parts);
    const cls = isOwn ? "message own" : "message";
    const data = { "data-mid": String(first.mid) };
    const node = element("li", { class: cls, ...data }, author, text, foot);
    return {
      node,
      update: (line) => {
        if (line.type !== "message") return;
        ({ message } = line);
        const name = isOwn ? "You" : theirs(session.names.of(message.srcid));
        setLine(author, name);
        const isGone = message.recalled === true;
        setText(text, isGone ? "This message was recalled." : message.msg);
        node.classList.toggle("recalled", isGone);
        setText(state, isGone ? "" : message.edited_ts ? "edited" : "");
        reactions.update(message);
        edit.hidden = isGone || !isOwn;
        recall.hidden = isGone || !(isOwn || this.#isAdmin());
      },
    };
  }

  /** Admins of a group recall everybody's messages. */
  #isAdmin(): boolean {
    const chat = this.#chat && this.session.device.chats.get(this.#chat);
    const role = chat?.with.type === "group" ? chat.with.role : "member";
    return role !== "member";
  }

  #waitingRow(send: QueuedSend): Row<Line> {
    const state = element("span", { class: "state" });
    const node = element(
      "li",
      { class: "message own waiting" },
      element("span", { class: "hidden" }, "You"),
      messageText(send.msg),
      element("div", { class: "foot" }, state),
    );
    const update = (): void => {
      const { isConnected } = this.session.device;
      setText(state, isConnected ? "Sending" : "Waiting for a connection");
    };
    return { node, update };
  }

  #refusedRow(send: RefusedSend): Row<Line> {
    const { reason, detail } = send.refused;
    const why = `Not sent: ${reasonText(reason, detail)}`;
    const again = button(
      "Send again",
      { class: "quiet" },
      () => void this.session.sendAgain(send),
    );
    const remove = button(
      "Remove",
      { class: "quiet" },
      () => void this.session.dismiss(send.clientMsgId),
    );
    const node = element(
      "li",
      { class: "message own refused" },
      element("span", { class: "hidden" }, "You"),
      messageText(send.msg),
      element("div", { class: "foot" }, why, again, remove),
    );
    return { node, update: () => undefined };
  }
}

/** Each paragraph has the direction of its own words. */
function messageText(text = ""): HTMLElement {
  return element("p", { class: "text", dir: "auto" }, text);
}

/** Messages by number, and below them up to where they were read on each class of devices, where that is not the end. */
function messageLines(chat: Chat): Line[] {
  const lines: Line[] = [];
  const messages = [...chat.messages.values()].sort((a, b) => a.mid - b.mid);
  messages.forEach((message, i) => {
    lines.push({ type: "message", key: `mid ${message.mid}`, message });
    const next = messages[i + 1]?.mid ?? Infinity;
    const classes = DEVICE_CLASSES.filter((cls) => {
      const mid = chat.readMid[cls];
      return message.mid <= mid && mid < next && mid < chat.lastMid;
    });
    if (classes.length === 0 || next === Infinity) return;
    lines.push({ type: "read", key: `read ${message.mid}`, classes });
  });
  return lines;
}
