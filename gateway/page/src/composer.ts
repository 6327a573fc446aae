import type { ChatKey, Message } from "@tidemark/client";
import { button, element } from "./dom.js";

/** Where a message is written, or edited. */
export class Composer {
  readonly node: HTMLFormElement;
  readonly #label = element("span", { class: "hidden" });
  readonly #text = element("textarea", { rows: "2", placeholder: "Message" });
  readonly #send = element("button", { type: "submit", class: "primary" });
  readonly #cancel: HTMLButtonElement;
  readonly #drafts = new Map<ChatKey, string>();
  #chat: ChatKey | null = null;
  #edited: Message | null = null;

  constructor(
    private readonly send: (text: string) => void,
    private readonly change: (message: Message, text: string) => void,
  ) {
    this.#cancel = button("Cancel", {}, () => this.edit(null));
    const label = element("label", { class: "grow" }, this.#label, this.#text);
    const parts = [label, this.#cancel, this.#send];
    this.node = element("form", { class: "composer" }, ...parts);
    this.node.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#text.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.#edited !== null) this.edit(null);
      const isEnter = event.key === "Enter" && !event.shiftKey;
      if (!isEnter || event.isComposing) return;
      event.preventDefault();
      this.#submit();
    });
    this.edit(null);
  }

  /** Turns to a chat; what was begun in another one waits there. */
  show(chat: ChatKey | null, name: string): void {
    this.#label.textContent = `Message to ${name}`;
    if (chat === this.#chat) return;
    if (this.#edited !== null) this.edit(null);
    if (this.#chat !== null) this.#drafts.set(this.#chat, this.#text.value);
    this.#chat = chat;
    this.#text.value = (chat && this.#drafts.get(chat)) ?? "";
  }

  /** Edits a message, or goes back to a new one. */
  edit(message: Message | null): void {
    const wasEditing = this.#edited !== null;
    this.#edited = message;
    if (message !== null || wasEditing) this.#text.value = message?.msg ?? "";
    this.#cancel.hidden = message === null;
    this.#send.textContent = message === null ? "Send" : "Save";
    if (message !== null || wasEditing) this.#text.focus();
  }

  focus(): void {
    this.#text.focus();
  }

  /** What was not taken is not lost. */
  restore(text: string): void {
    if (this.#text.value === "") this.#text.value = text;
  }

  #submit(): void {
    const text = this.#text.value.trim();
    if (text === "") return;
    const edited = this.#edited;
    this.#text.value = "";
    if (edited === null) return this.send(text);
    this.edit(null);
    this.change(edited, text);
  }
}
