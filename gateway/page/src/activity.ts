import type { ChatKey, Update } from "@tidemark/client";

/** Who types says so every second; it is shown for so long behind the last word of it. */
const TYPING_MS = 6_000;

/** Whether a user is there. */
export type Presence = Extract<Update, { type: "presence" }>;

/** Who types, and whether the user that the device looks at is there: what is told once, and holds for a moment. */
export class Activity {
  readonly #typing = new Map<ChatKey, Map<string, number>>();
  #presence: Presence | null = null;

  constructor(
    private readonly uid: string,
    private readonly onChange: () => void,
  ) {}

  take(update: Update): void {
    if (update.type === "presence") this.#presence = update;
    if (update.type === "disconnected") {
      this.#presence = null;
      this.#typing.clear();
    }
    if (update.type !== "typing" || update.from === this.uid) return;
    const { chat, from } = update;
    const typing = this.#typing.get(chat) ?? new Map<string, number>();
    this.#typing.set(chat, typing.set(from, Date.now() + TYPING_MS));
    setTimeout(this.onChange, TYPING_MS + 1);
  }

  /** Whoever types sends what was typed. */
  sent(chat: ChatKey, from: string): void {
    this.#typing.get(chat)?.delete(from);
  }

  /** Who types in a chat. */
  typists(chat: ChatKey): string[] {
    const now = Date.now();
    const typing = [...(this.#typing.get(chat) ?? [])];
    return typing.filter(([, until]) => until > now).map(([uid]) => uid);
  }

  /** Whether a user is there; `null` where that is not known. */
  presence(uid: string): Presence | null {
    const { uid: known, online } = this.#presence ?? {};
    return known === uid && online !== null ? this.#presence : null;
  }
}
