import { isUid, type DeviceClass } from "@tidemark/client";
import { button, element, field, uidField } from "./dom.js";
import type { User } from "./session.js";

/** Users of the demo, and what there is to see of them. */
const USERS: readonly [uid: string, about: string][] = [
  ["1000", "has mail from 1001"],
  ["1001", "writes to 1000"],
  ["1002", "has pinned Ann"],
  ["1003", "Ann, who edits and recalls"],
  ["1004", "owns the group Harbour"],
  ["1005", "is in Harbour"],
  ["1006", "is in Harbour, and behind"],
];

/** Who uses a device: a user of the demo or another one, or the user of a token. */
export class SignIn {
  readonly node: HTMLElement;
  readonly #class = element("select", {});
  readonly #problem = element("p", { class: "problem", role: "alert" });

  constructor(
    title: string,
    authenticates: boolean,
    cls: DeviceClass,
    private readonly open: (user: User) => Promise<void>,
  ) {
    for (const [value, text] of [
      ["pc", "a computer (pc)"],
      ["mobile", "a telephone (mobile)"],
    ] as const) {
      this.#class.append(
        element("option", { value, selected: value === cls }, text),
      );
    }
    const kind = element("label", {}, "This device is", this.#class);
    const who = authenticates ? this.#withToken() : this.#withNumber();
    const heading = element("h2", {}, title);
    const parts = [heading, kind, ...who, this.#problem];
    this.node = element("div", { class: "sign-in" }, ...parts);
  }

  /** Says why a device did not begin. */
  say(problem: string): void {
    this.#problem.textContent = problem;
  }

  #withNumber(): HTMLElement[] {
    const users = element("ul", { class: "users" });
    for (const [uid, about] of USERS) {
      const one = button(uid, { class: "user" }, () => this.#begin({ uid }));
      one.append(element("span", { class: "about" }, about));
      users.append(element("li", {}, one));
    }
    const uid = uidField("Or any other number");
    const form = this.#form(uid.row, () =>
      this.#begin({ uid: uid.input.value }),
    );
    const hint =
      "Choose a user of the demo. Each device has a storage of its own.";
    return [element("p", { class: "hint" }, hint), users, form];
  }

  #withToken(): HTMLElement[] {
    // The browser is not to keep it.
    const token = field("Bearer token of the user (a JWT)", {
      type: "password",
      required: true,
    });
    const form = this.#form(token.row, () => {
      const text = token.input.value.trim();
      const uid = subjectOf(text);
      if (uid === null) this.say("That is no token with a user's number.");
      else this.#begin({ uid, token: text });
    });
    return [form];
  }

  #form(row: HTMLElement, submit: () => void): HTMLFormElement {
    const go = element("button", { type: "submit", class: "primary" }, "Begin");
    const form = element("form", {}, row, go);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      submit();
    });
    return form;
  }

  #begin(who: { uid: string; token?: string }): void {
    this.say("");
    const cls: DeviceClass = this.#class.value === "mobile" ? "mobile" : "pc";
    void this.open({ ...who, cls });
  }
}

/** The `sub` of a JWT. Whether the token is good the services decide. */
function subjectOf(token: string): string | null {
  const [, payload = ""] = token.split(".");
  try {
    const text = atob(payload.replaceAll("-", "+").replaceAll("_", "/"));
    const { sub } = JSON.parse(text) as { sub?: unknown };
    return typeof sub === "string" && isUid(sub) ? sub : null;
  } catch {
    return null;
  }
}
