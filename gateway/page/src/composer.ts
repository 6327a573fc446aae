import type { ChatKey, Message } from "@tidemark/client";
import { button, element } from "./dom.js";

/** Where a message is written, or edited. */
export class Composer {
  readonly node: HTMLFormElement;
  readonly #label = element("span", { class: "hidden" });
  readonly #text = element("textarea", {
    rows: "2",
    placeholder: "Message",
    dir: "auto",
  });
  readonly #send = element("button", { type: "submit", class: "primary" });
  readonly #cancel: HTMLButtonElement;
  readonly #drafts = new Map<ChatKey, string>();
  #chat: ChatKey | null = null;
  #edited: Message | null = null;

  constructor(
    /** These say whether the text was taken. */
    private readonly send: (text: string) => Promise<boolean>,
    private readonly change: (
      message: Message,
      text: string,
    ) => Promise<boolean>,
    private readonly types: () => void,
  ) {
    this.#cancel = button("Cancel", {}, () => this.edit(null));
    const label = element("label", { class: "grow" }, this.#label, this.#text);
    const parts = [label, this.#cancel, this.#send];
    this.node = element("form", { class: "composer" }, ...parts);
    this.node.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.#submit();
    });
    this.#text.addEventListener("input", () => this.types());
    this.#text.addEventListener("keydown", (event) => {
      if (isOfInputMethod(event)) return;
      if (event.key === "Escape" && this.#edited !== null) this.edit(null);
      const isEnter = event.key === "Enter" && !event.shiftKey;
      if (!isEnter) return;
      event.preventDefault();
      void this.#submit();
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

  /** Edits a message, or goes back to a new one, which waits meanwhile. */
  edit(message: Message | null, text = message?.msg ?? ""): void {
    const wasEditing = this.#edited !== null;
    this.#edited = message;
    this.#cancel.hidden = message === null;
    this.#send.textContent = message === null ? "Send" : "Save";
    if (message === null && !wasEditing) return;
    const chat = this.#chat;
    if (chat !== null && !wasEditing) this.#drafts.set(chat, this.#text.value);
    const draft = (chat && this.#drafts.get(chat)) ?? "";
    this.#text.value = message === null ? draft : text;
    this.#text.focus();
  }

  focus(): void {
    this.#text.focus();
  }

  async #submit(): Promise<void> {
    const text = this.#text.value.trim();
    if (text === "") return;
    const [chat, edited] = [this.#chat, this.#edited];
    if (edited === null) this.#text.value = "";
    else this.edit(null);
    const isTaken =
      edited === null ? await this.send(text) : await this.change(edited, text);
    if (!isTaken && chat !== null) this.#restore(chat, edited, text);
  }

  /** What was not taken is not lost, and neither is what was begun meanwhile. */
  #restore(chat: ChatKey, edited: Message | null, text: string): void {
    const isHere = chat === this.#chat && this.#edited === null;
    if (isHere && edited !== null) return this.edit(edited, text);
    const begun = isHere ? this.#text.value : this.#drafts.get(chat);
    const both = begun ? `${text}\n${begun}` : text;
    if (isHere) this.#text.value = both;
    else this.#drafts.set(chat, both);
  }
}

/** The key chooses or ends what an input method composes. Safari ends the composition before it tells of the key, and leaves 229 as its code. */
function isOfInputMethod(event: KeyboardEvent): boolean {
  return event.isComposing || event.keyCode === 229;
}
