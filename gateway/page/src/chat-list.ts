import {
  DEVICE_CLASSES,
  splitKey,
  type Chat,
  type ChatKey,
  type DeviceClass,
} from "@tidemark/client";
import {
  element,
  KeyedList,
  setLine,
  setText,
  theirs,
  type Row,
} from "./dom.js";
import type { Session } from "./session.js";
import { shortTimeText } from "./times.js";

/** The chats of a user: pinned ones first, then the newest. */
export function listedChats(session: Session): Chat[] {
  const chats = [...session.device.chats.values()].filter(isListed);
  const time = (chat: Chat): string => chat.last?.ts ?? "";
  const isPinned = (chat: Chat): boolean =>
    chat.with.type === "user" && chat.with.flags.pinned;
  return chats.sort(
    (a, b) =>
      Number(isPinned(b)) - Number(isPinned(a)) ||
      (time(b) < time(a) ? -1 : time(b) > time(a) ? 1 : 0) ||
      (a.key < b.key ? -1 : 1),
  );
}

function isListed(chat: Chat): boolean {
  return chat.with.type === "group" || (chat.lastMid > 0 && !chat.with.deleted);
}

/** What a chat is called. */
export function chatName(session: Session, key: ChatKey): string {
  const [kind, id] = splitKey(key);
  if (kind === "user")
    return id === session.uid ? "Notes to myself" : session.names.of(id);
  const chat = session.device.chats.get(key);
  return chat?.with.type === "group" ? chat.with.name : `Group ${id}`;
}

/** A count for people; what is not known is some. */
function countText(unread: number | null): string {
  return unread === null ? "some" : String(unread);
}

/** The unread counts on each class of devices. */
export function countsText({ unread }: Chat): string {
  return DEVICE_CLASSES.map(
    (cls) => `${countText(unread[cls])} on ${cls}`,
  ).join(", ");
}

/** The other class of devices. */
function otherClass(cls: DeviceClass): DeviceClass {
  return cls === "pc" ? "mobile" : "pc";
}

/** The list of conversations. */
export class ChatList {
  readonly node: HTMLElement;
  readonly #rows: KeyedList<Chat>;
  readonly #empty = element("p", { class: "hint" }, "No conversations yet.");

  constructor(
    private readonly session: Session,
    private readonly open: (key: ChatKey) => void,
  ) {
    const list = element("ul", { class: "chats" });
    this.#rows = new KeyedList<Chat>(
      list,
      (chat) => chat.key,
      (chat) => this.#row(chat.key),
    );
    this.node = element("div", { class: "scroll" }, list, this.#empty);
  }

  render(): void {
    const chats = listedChats(this.session);
    this.#rows.update(chats);
    this.#empty.hidden = chats.length > 0 || this.session.device.token === null;
  }

  #row(key: ChatKey): Row<Chat> {
    const name = element("span", { class: "name" });
    const time = element("span", { class: "time" });
    const preview = element("span", { class: "preview" });
    const unread = element("span", { class: "badge" });
    const other = element("span", { class: "other" });
    const pinned = element("span", { class: "pin", title: "Pinned" }, "pinned");
    const counts = element("span", { class: "counts" }, pinned, other, unread);
    const open = element(
      "button",
      { type: "button", class: "chat", "data-chat": key },
      name,
      time,
      preview,
      counts,
    );
    open.addEventListener("click", () => this.open(key));
    const { session } = this;
    const { cls } = session.user;
    return {
      node: element("li", {}, open),
      update: (chat) => {
        setLine(name, theirs(chatName(session, key)));
        setText(time, chat.last ? shortTimeText(chat.last.ts) : "");
        setLine(preview, ...previewOf(session, chat));
        const [own, others] = [chat.unread[cls], chat.unread[otherClass(cls)]];
        setText(unread, own === 0 ? "" : `${countText(own)} unread`);
        unread.dataset["count"] = own === null ? "•" : String(own);
        const differs = others !== own && others !== 0;
        counts.title = `Unread: ${countsText(chat)}`;
        setText(
          other,
          differs ? `${countText(others)} on ${otherClass(cls)}` : "",
        );
        pinned.hidden = chat.with.type !== "user" || !chat.with.flags.pinned;
        if (session.shown === key) open.setAttribute("aria-current", "true");
        else open.removeAttribute("aria-current");
      },
    };
  }
}

function previewOf(session: Session, chat: Chat): (Node | string)[] {
  const waiting = session.waiting(chat.key).at(-1);
  if (waiting !== undefined) return ["Waiting: ", theirs(waiting.msg)];
  const { last } = chat;
  if (last === null) return [];
  const text = last.recalled ? "(recalled)" : theirs(last.msg);
  if (last.srcid === session.uid) return ["You: ", text];
  return chat.with.type === "group"
    ? [theirs(session.names.of(last.srcid)), ": ", text]
    : [text];
}
