import type { DeviceClass } from "@tidemark/client";
import { beginProblem, DeviceView } from "./device-view.js";
import { element } from "./dom.js";
import { errorText } from "./outcomes.js";
import { Session, type User } from "./session.js";
import type { PageSettings } from "./settings.js";
import { SignIn } from "./sign-in.js";

/** A place for a device on the page: a form, then the device. */
export class Place {
  readonly node: HTMLElement;
  #session: Session | null = null;
  #form!: SignIn;

  constructor(
    private readonly settings: PageSettings,
    private readonly title: string,
    private readonly cls: DeviceClass,
    private readonly onChange: () => void,
  ) {
    const attributes = { class: "place", "aria-label": title };
    this.node = element("section", attributes);
    this.#showForm();
  }

  /** Who uses the device; `null` before anybody does. */
  get user(): User | null {
    return this.#session?.user ?? null;
  }

  /** Begins a device. */
  async begin(user: User): Promise<void> {
    try {
      const session = await Session.open(this.settings, user);
      this.#session = session;
      const view = new DeviceView(
        session,
        this.title,
        (work) => void this.#leave(work),
      );
      this.node.replaceChildren(view.node);
      view.node.querySelector<HTMLElement>("button")?.focus();
    } catch (error) {
      this.#form.say(beginProblem(error));
    }
    this.onChange();
  }

  /** Ends the device, if there is one. It comes back with what it knew. */
  async close(): Promise<void> {
    const session = this.#session;
    if (session !== null) await this.#leave(() => session.close());
  }

  async #leave(work: () => Promise<void>): Promise<void> {
    this.#session = null;
    this.onChange();
    const problem = await work().then(() => "", errorText);
    this.#showForm();
    this.#form.say(problem);
  }

  #showForm(): void {
    const { authenticates } = this.settings;
    const begin = (user: User): Promise<void> => this.begin(user);
    this.#form = new SignIn(this.title, authenticates, this.cls, begin);
    this.node.replaceChildren(this.#form.node);
  }
}
