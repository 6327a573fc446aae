/** A save takes whole chats, and is not made for each event. */
const DELAY_MS = 200;

/** Saves one after the other; what changes while one is under way waits for the next. */
export class Saver {
  #running: Promise<void> | null = null;
  #next: Promise<void> | null = null;
  #failed: { error: unknown } | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    /** Takes what has changed, and stores it. */
    private readonly write: () => Promise<void>,
    private readonly onFailure: (error: unknown) => void,
  ) {}

  /** Resolves once all that has changed before this call is stored. After a failure nothing is: what that one took would be missing. */
  save(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#running !== null) {
      this.#next ??= this.#running.then(() => {
        this.#next = null;
        return this.save();
      });
      return this.#next;
    }
    this.#running = this.#save();
    return this.#running;
  }

  /** Saves in a while, with what changes until then. */
  saveSoon(): void {
    this.#timer ??= setTimeout(() => {
      this.save().catch(() => undefined);
    }, DELAY_MS);
  }

  async #save(): Promise<void> {
    try {
      if (this.#failed !== null) throw this.#failed.error;
      await this.write();
    } catch (error) {
      this.#failed ??= { error };
      this.onFailure(error);
      throw error;
    } finally {
      this.#running = null;
    }
  }
}
