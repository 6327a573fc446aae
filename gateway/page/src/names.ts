import type { QueryPaths, Service } from "@tidemark/client";

/** The most that one call asks for. */
const BATCH = 100;
const WAIT_MS = 50;

/** What users call themselves, asked for when they are first shown. */
export class Names {
  readonly #nicks = new Map<string, string | null>();
  readonly #wanted = new Set<string>();
  #isAsking = false;

  constructor(
    private readonly query: Service<QueryPaths>,
    private readonly onChange: () => void,
  ) {}

  /** The nick, where there is one; otherwise the number. */
  of(uid: string): string {
    const nick = this.#nicks.get(uid);
    if (nick === undefined) this.#want(uid);
    return nick ?? `User ${uid}`;
  }

  #want(uid: string): void {
    this.#nicks.set(uid, null);
    this.#wanted.add(uid);
    if (this.#isAsking) return;
    this.#isAsking = true;
    setTimeout(() => void this.#ask(), WAIT_MS);
  }

  async #ask(): Promise<void> {
    const uids = [...this.#wanted].slice(0, BATCH);
    for (const uid of uids) this.#wanted.delete(uid);
    const more = this.#wanted.size > 0;
    try {
      const query = { uid: uids };
      const { profiles } = await this.query.get("/v1/profiles", {}, query);
      for (const [uid, { nick }] of Object.entries(profiles)) {
        this.#nicks.set(uid, nick);
      }
      this.onChange();
    } catch {
      // Asked again when they are shown next.
      for (const uid of uids) this.#nicks.delete(uid);
    }
    if (more) setTimeout(() => void this.#ask(), WAIT_MS);
    else this.#isAsking = false;
  }
}
