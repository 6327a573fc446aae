import type { ChatKey, Update } from "@tidemark/client";
import { ChatList, chatName } from "./chat-list.js";
import { ChatView, typingLine } from "./chat-view.js";
import { button, element, setLine, setText, theirs } from "./dom.js";
import { openNewChat, openNewGroup } from "./group-dialogs.js";
import { errorText, reasonText } from "./outcomes.js";
import type { Session } from "./session.js";

/** Of a page that is neither https nor of this machine. */
const NOT_STORED = "Without https nothing is stored, so a reload loses it";

/** What of several changes in a row is shown once. */
const RENDER_MS = 16;

/** A device: who it is and whether it is connected, its conversations, and the one that is open. */
export class DeviceView {
  readonly node: HTMLElement;
  readonly #user = element("h2", {});
  readonly #state = element("p", { class: "connection" });
  readonly #problem = element("p", { class: "problem" });
  readonly #notice = element("p", { class: "grow", role: "alert" });
  readonly #noticeRow: HTMLElement;
  readonly #network: HTMLButtonElement;
  /** For screen readers. */
  readonly #said = element("p", { class: "hidden", role: "status" });
  readonly #list: ChatList;
  readonly #chat: ChatView;
  #isRendering = false;
  /** Whose typing was said, until a message comes. */
  #saidTyping = "";

  constructor(
    private readonly session: Session,
    private readonly title: string,
    leave: (work: () => Promise<void>) => void,
  ) {
    this.#network = button("Network", { role: "switch" }, () =>
      session.switchNetwork(),
    );
    const close = button(
      "Close",
      { title: "It comes back with what it knew" },
      () => leave(() => session.close()),
    );
    const forget = button(
      "Forget",
      { title: "Delete what this device knows and has not sent" },
      () => leave(() => session.forget()),
    );
    const who = element("div", { class: "grow" }, this.#user, this.#state);
    const tools = element(
      "div",
      { class: "tools" },
      this.#network,
      close,
      forget,
    );
    const bar = element("div", { class: "bar" }, who, tools);
    const dismiss = button("Dismiss", { class: "quiet" }, () =>
      session.tell(""),
    );
    this.#noticeRow = element(
      "div",
      { class: "notice" },
      this.#notice,
      dismiss,
    );
    this.#list = new ChatList(session, (key) => this.open(key));
    this.#chat = new ChatView(session, title, () => this.#back());
    const list = this.#listWithButtons();
    const columns = element("div", { class: "columns" }, list, this.#chat.node);
    const parts = [bar, this.#problem, this.#noticeRow, columns, this.#said];
    this.node = element("div", { class: "device" }, ...parts);
    session.onChange((update) => {
      this.#announce(update);
      this.#renderSoon();
    });
    this.render();
  }

  /** Opens a chat, and goes there. */
  open(key: ChatKey): void {
    this.session.shown = key;
    this.render();
    this.#chat.focus();
  }

  render(): void {
    const { session } = this;
    const { uid, cls } = session.user;
    const name = session.names.of(uid);
    const number = name.endsWith(uid) ? "" : ` (${uid})`;
    setLine(this.#user, theirs(name), number);
    const { text, state } = this.#connection();
    setText(this.#state, `${cls}: ${text}`);
    this.#state.dataset["state"] = state;
    const isAway = state === "connecting" || state === "ended";
    setText(this.#problem, this.#problemText(isAway));
    setText(this.#notice, session.notice);
    this.#noticeRow.hidden = session.notice === "";
    this.#network.setAttribute("aria-checked", String(session.network.isOn));
    this.node.classList.toggle("has-chat", session.shown !== null);
    this.#list.render();
    this.#chat.render();
  }

  /** What is wrong at present. */
  #problemText(isAway: boolean): string {
    const { problem, behind, device } = this.session;
    const stored = device.storageProblem;
    const all = [
      isAway ? problem : "",
      behind,
      stored === null ? "" : `Not stored, so a reload loses it: ${stored}`,
      this.session.isStored ? "" : NOT_STORED,
    ];
    return all.filter((text) => text !== "").join(". ");
  }

  #connection(): { text: string; state: string } {
    const { device, network, hasEnded } = this.session;
    if (hasEnded) return { text: "ended", state: "ended" };
    if (!network.isOn) return { text: "offline (switched off)", state: "off" };
    return device.isConnected
      ? { text: "connected", state: "connected" }
      : { text: "connecting …", state: "connecting" };
  }

  #listWithButtons(): HTMLElement {
    const { session } = this;
    const open = (key: ChatKey): void => this.open(key);
    const chat = button("New chat", {}, () => openNewChat(this.node, open));
    const group = button("New group", {}, () =>
      openNewGroup(session, this.node, open),
    );
    const label = `${this.title}: conversations`;
    const does = element("div", { class: "does" }, chat, group);
    const parts = [does, this.#list.node];
    return element("nav", { class: "list", "aria-label": label }, ...parts);
  }

  #back(): void {
    const { shown } = this.session;
    this.session.shown = null;
    this.render();
    const row = this.#list.node.querySelector(`[data-chat="${shown}"]`);
    if (row instanceof HTMLElement) row.focus();
  }

  #renderSoon(): void {
    if (this.#isRendering) return;
    this.#isRendering = true;
    setTimeout(() => {
      this.#isRendering = false;
      this.render();
    }, RENDER_MS);
  }

  #announce(update: Update | null): void {
    if (update?.type === "connected") this.#say("Connected.");
    if (update?.type === "disconnected") this.#say("Not connected.");
    if (update?.type === "storage" && update.problem !== null)
      this.#say(`Not stored: ${update.problem}`);
    if (update?.type === "refused")
      this.#say(`Not sent: ${reasonText(update.reason, update.detail)}`);
    if (update?.type === "typing") this.#announceTyping(update);
    if (update?.type !== "chat") return;
    if (this.#saidTyping.startsWith(`${update.chat} `)) this.#saidTyping = "";
    const chat = this.session.device.chats.get(update.chat);
    const isOwn = chat?.last?.srcid === this.session.uid;
    if (!chat?.last || isOwn || chat.unread[this.session.user.cls] === 0)
      return;
    this.#say(`${chatName(this.session, update.chat)}: ${chat.last.msg}`);
  }

  /** Once, not every second. */
  #announceTyping({ chat, from }: { chat: ChatKey; from: string }): void {
    const key = `${chat} ${from}`;
    if (chat !== this.session.shown || key === this.#saidTyping) return;
    this.#saidTyping = key;
    setLine(this.#said, ...typingLine(this.session, chat));
  }

  /** Tells screen readers. */
  #say(text: string): void {
    setText(this.#said, text);
  }
}

/** Why a device could not begin. */
export function beginProblem(error: unknown): string {
  return `This device cannot begin: ${errorText(error)}`;
}
