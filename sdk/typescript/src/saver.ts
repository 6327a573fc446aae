/** A save takes whole chats, and is not made for each event. */
const DELAY_MS = 200;
/** Where it fails, so much later again. */
const RETRY_MS = 10_000;

/** Saves one after the other; what changes while one is under way waits for the next. */
export class Saver {
  #running: Promise<void> | null = null;
  #next: Promise<void> | null = null;
  #problem: string | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    /** Takes what has changed, and stores it. Where it throws, that counts as changed still. */
    private readonly write: () => Promise<void>,
    /** Storing fails from now on, and why; or it works again. */
    private readonly onProblem: (problem: string | null) => void,
  ) {}

  /** Why the last save failed; `null` where it did not. */
  get problem(): string | null {
    return this.#problem;
  }

  /** Resolves once it was tried to store all that has changed before this call. */
  save(): Promise<void> {
    this.cancel();
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
    const delay = this.#problem === null ? DELAY_MS : RETRY_MS;
    this.#timer ??= setTimeout(() => void this.save(), delay);
  }

  /** What was to be saved in a while is not. */
  cancel(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  async #save(): Promise<void> {
    const before = this.#problem;
    try {
      await this.write();
      this.#problem = null;
    } catch (error) {
      this.#problem = textOf(error);
      this.saveSoon();
    }
    this.#running = null;
    const hasChanged = (this.#problem === null) !== (before === null);
    if (hasChanged) this.onProblem(this.#problem);
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}
