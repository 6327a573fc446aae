import { expect, type Locator, type Page } from "@playwright/test";

/** What a device shows of a conversation in its list. */
export interface Listed {
  key: string | null;
  name: string;
  preview: string;
  unread: string | null;
}

/** A device on a page, as its user sees and uses it. */
export class DevicePage {
  readonly #root: Locator;

  constructor(
    readonly page: Page,
    title = "First device",
  ) {
    this.#root = page.getByRole("region", { name: title, exact: true });
  }

  /** Opens the page as a device of this user. */
  async begin(uid: string, cls: "pc" | "mobile"): Promise<void> {
    await this.page.goto("/");
    await this.signIn(uid, cls);
    await this.isConnected();
  }

  async signIn(uid: string, cls: "pc" | "mobile"): Promise<void> {
    await this.#root.getByLabel("This device is").selectOption(cls);
    await this.#root.getByLabel("Or any other number").fill(uid);
    await this.#root.getByRole("button", { name: "Begin" }).click();
  }

  async isConnected(): Promise<void> {
    await expect(this.state).toHaveText(/: connected$/);
  }

  get state(): Locator {
    return this.#root.locator(".connection");
  }

  /** What could not be done. */
  get notice(): Locator {
    return this.#root.getByRole("alert");
  }

  /** Switches the network of the device on or off. */
  async switchNetwork(): Promise<void> {
    await this.#root.getByRole("switch", { name: "Network" }).click();
  }

  /** What is wrong at present. */
  get problem(): Locator {
    return this.#root.locator(".device > .problem");
  }

  /** Whether the user of the conversation that is open is there. */
  get presence(): Locator {
    return this.#root.locator(".presence");
  }

  /** Who types in the conversation that is open. */
  get typing(): Locator {
    return this.#root.locator(".typing");
  }

  /** What screen readers were told last. */
  get said(): Locator {
    return this.#root.getByRole("status");
  }

  /** Where one writes. */
  get field(): Locator {
    return this.#root.getByPlaceholder("Message");
  }

  chat(key: string): Locator {
    return this.#root.locator(`[data-chat="${key}"]`);
  }

  message(text: string): Locator {
    return this.#root.locator(".message", { hasText: text });
  }

  button(name: string): Locator {
    return this.#root.getByRole("button", { name, exact: true });
  }

  /** Opens a conversation, with a user that is not in the list yet by the number. */
  async show(key: string): Promise<void> {
    if (await this.chat(key).isVisible()) await this.chat(key).click();
    else {
      await this.button("New chat").click();
      const dialog = this.#root.getByRole("dialog");
      await dialog.getByLabel("Number of the user").fill(key.slice(5));
      await dialog.getByRole("button", { name: "Open" }).click();
    }
  }

  /** Writes into the conversation that is open. */
  async write(text: string): Promise<void> {
    await this.field.fill(text);
    await this.field.press("Enter");
  }

  /** Begins a group, and waits until it is open; its key. */
  async createGroup(name: string, members: string[]): Promise<string> {
    await this.button("New group").click();
    const dialog = this.#root.getByRole("dialog");
    await dialog.getByLabel("Name").fill(name);
    await dialog.getByLabel("Members besides you").fill(members.join(" "));
    await dialog.getByRole("button", { name: "Create" }).click();
    const row = this.#root.locator("[data-chat]", { hasText: name });
    await expect(row).toHaveAttribute("aria-current", "true");
    return (await row.getAttribute("data-chat")) ?? "";
  }

  /** Recalls one of the user's messages. */
  async recall(text: string): Promise<void> {
    const message = this.message(text);
    await message.hover();
    await message.getByRole("button", { name: "Recall" }).click();
  }

  /** Gives one of the user's messages another text. */
  async edit(text: string, other: string): Promise<void> {
    const message = this.message(text);
    await message.hover();
    await message.getByRole("button", { name: "Edit" }).click();
    await this.write(other);
  }

  /** The list of conversations. */
  listed(): Promise<Listed[]> {
    return this.#root.locator("[data-chat]").evaluateAll((rows) =>
      rows.map((row) => {
        const text = (of: string): string =>
          row.querySelector(of)?.textContent ?? "";
        const counts = row.querySelector(".counts");
        return {
          key: row.getAttribute("data-chat"),
          name: text(".name"),
          preview: text(".preview"),
          unread: counts?.getAttribute("title") ?? null,
        };
      }),
    );
  }

  /** The messages of the conversation that is open, with what has become of them. */
  messages(): Promise<string[]> {
    return this.#root.locator(".message").evaluateAll((rows) =>
      rows.map((row) => {
        const text = (of: string): string =>
          row.querySelector(of)?.textContent ?? "";
        const place = row.getAttribute("data-mid") ?? "not on the log";
        return `${place} ${text("span")}: ${text(".text")} ${text(".changed")}`;
      }),
    );
  }
}
