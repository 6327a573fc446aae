import type { Message } from "@tidemark/client";
import { button, element, KeyedList, setText } from "./dom.js";
import type { Session } from "./session.js";

/** What is offered; other devices may react with any emoji. */
const OFFERED = ["👍", "❤️", "😂", "😮", "😢", "🙏"];

/** An emoji, and who has reacted with it. */
type Reaction = { emoji: string; users: string[] };

/** The reactions to a message, each a button that joins in or takes one's own back, and more to choose from. */
export class Reactions {
  readonly node: HTMLElement;
  readonly #shown: KeyedList<Reaction>;
  readonly #choose: HTMLButtonElement;
  readonly #offered: HTMLElement;
  /** Of the user. */
  #own: string | undefined;

  constructor(
    private readonly session: Session,
    private readonly mid: number,
  ) {
    const shown = element("span", { role: "group", "aria-label": "Reactions" });
    this.#shown = new KeyedList(
      shown,
      ({ emoji }) => emoji,
      ({ emoji }) => this.#reaction(emoji),
    );
    const offer = (emoji: string): HTMLElement =>
      button(emoji, { class: "quiet" }, () => this.#toggle(emoji));
    const attributes = { role: "group", "aria-label": "Choose a reaction" };
    this.#offered = element("span", attributes, ...OFFERED.map(offer));
    this.#choose = button("React", { class: "quiet" }, () => {
      this.#offer(this.#offered.hidden);
    });
    this.#offer(false);
    const parts = [shown, this.#choose, this.#offered];
    this.node = element("span", {}, ...parts);
  }

  update(message: Message): void {
    this.node.hidden = message.recalled === true;
    const reactions = message.reactions ?? {};
    this.#own = reactions[this.session.uid];
    const users = new Map<string, string[]>();
    for (const [uid, emoji] of Object.entries(reactions)) {
      users.set(emoji, [...(users.get(emoji) ?? []), uid]);
    }
    const all = [...users].map(([emoji, users]) => ({ emoji, users }));
    this.#shown.update(all.sort((a, b) => b.users.length - a.users.length));
  }

  #reaction(emoji: string): { node: HTMLElement; update(one: Reaction): void } {
    const node = button("", {}, () => this.#toggle(emoji));
    const update = ({ users }: Reaction): void => {
      setText(node, `${emoji} ${users.length}`);
      node.setAttribute("aria-pressed", String(users.includes(this.session.uid)));
    };
    return { node, update };
  }

  #toggle(emoji: string): void {
    this.#offer(false);
    const { session, mid } = this;
    const body = { emoji: emoji === this.#own ? "" : emoji };
    void session.changeMessage(mid, "No reaction", (of) =>
      session.ingest.post("/v1/reactions", {}, { ...of, ...body }),
    );
  }

  #offer(isOffered: boolean): void {
    this.#offered.hidden = !isOffered;
    this.#choose.setAttribute("aria-expanded", String(isOffered));
  }
}
