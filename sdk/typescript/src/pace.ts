/** What a gateway allows where its `welcome` does not say: frames and bytes a second. */
const FRAMES_PER_S = 50;
const BYTES_PER_S = 256 * 1024;
/**
 * A gateway takes ten seconds' worth at once. Half of that is left to what else the user has: another device, or this one before its program began
 * again.
 */
const BURST_MS = 5_000;

/** Frames and bytes a second that a gateway allows; what is absent stays as it is. */
export interface Rates {
  frames_per_s?: number;
  bytes_per_s?: number;
}

/** How fast a device writes: a gateway closes the connection of one that is faster than it allows. */
export class Pace {
  readonly #frames = new Budget(FRAMES_PER_S);
  readonly #bytes = new Budget(BYTES_PER_S);

  /** As a `welcome` says. */
  set({ frames_per_s, bytes_per_s }: Rates): void {
    this.#frames.set(frames_per_s);
    this.#bytes.set(bytes_per_s);
  }

  /** Milliseconds until a frame of so many bytes may be written: 0 for now. */
  wait(bytes: number): number {
    return Math.max(this.#frames.wait(1), this.#bytes.wait(bytes));
  }

  /** A frame of so many bytes is written. */
  spend(bytes: number): void {
    this.#frames.spend(1);
    this.#bytes.spend(bytes);
  }

  /** The gateway has said that it was too much: nothing may be written at once. */
  exhaust(): void {
    this.#frames.exhaust();
    this.#bytes.exhaust();
  }
}

/** So many a second, and five seconds' worth of them at once. */
class Budget {
  /** When the whole burst is available again. */
  #wholeAt = 0;

  constructor(private perS: number) {}

  set(perS: number | undefined): void {
    if (typeof perS === "number" && perS > 0) this.perS = perS;
  }

  /** What is more than the whole burst waits for all of it. */
  wait(amount: number): number {
    const now = performance.now();
    const whole = Math.max(0, this.#wholeAt - now);
    return Math.min(whole, Math.max(0, whole + this.#costMs(amount) - BURST_MS));
  }

  spend(amount: number): void {
    this.#wholeAt = Math.max(this.#wholeAt, performance.now()) + this.#costMs(amount);
  }

  exhaust(): void {
    this.#wholeAt = Math.max(this.#wholeAt, performance.now() + BURST_MS);
  }

  #costMs(amount: number): number {
    return (amount * 1_000) / this.perS;
  }
}
