/** Attributes of an element: `true` is an attribute without a value, `false` none. */
type Attributes = Record<string, string | boolean>;

/** An element with attributes and children. Text is text: nothing here reads HTML. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** A button that does something. */
export function button(
  text: string,
  attributes: Attributes,
  onClick: () => void,
): HTMLButtonElement {
  const made = element("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", onClick);
  return made;
}

/** An input below its label. */
export function field(
  label: string,
  attributes: Attributes,
): { row: HTMLLabelElement; input: HTMLInputElement } {
  const input = element("input", { autocomplete: "off", ...attributes });
  return { row: element("label", {}, label, input), input };
}

/** An input for the number of a user. */
export function uidField(label: string): ReturnType<typeof field> {
  return field(label, {
    inputmode: "numeric",
    pattern: "[1-9][0-9]*",
    title: "The number of a user: digits only, from 1 on",
    required: true,
  });
}

/** Sets a text only where it differs: what a screen reader has begun to read goes on. */
export function setText(node: HTMLElement, text: string): void {
  if (node.textContent !== text) node.textContent = text;
}

/** Marks that turn the direction of all that stands after them. */
const TURNING = /[\u202a-\u202e\u2066-\u2069]/g;

/** Words of a stranger within a line of the page: they have a direction of their own, and change that of nothing else. */
export function theirs(words: string): HTMLElement {
  return element("bdi", {}, words.replace(TURNING, ""));
}

/** Sets a line of the page's words and of {@link theirs}, as {@link setText} sets a text. */
export function setLine(node: HTMLElement, ...parts: (Node | string)[]): void {
  const text = (part: Node | string): string =>
    typeof part === "string" ? part : (part.textContent ?? "");
  if (node.textContent === parts.map(text).join("")) return;
  node.replaceChildren(...parts);
}

/** An element of a list, which can show another state of its item. */
export interface Row<T> {
  node: HTMLElement;
  update(item: T): void;
}

/** Children by key: what stays keeps its element, and so the focus. */
export class KeyedList<T> {
  readonly #rows = new Map<string, Row<T>>();

  constructor(
    private readonly parent: HTMLElement,
    private readonly keyOf: (item: T) => string,
    private readonly make: (item: T) => Row<T>,
  ) {}

  update(items: readonly T[]): void {
    const keys = new Set(items.map(this.keyOf));
    for (const [key, row] of this.#rows) {
      if (keys.has(key)) continue;
      row.node.remove();
      this.#rows.delete(key);
    }
    let before: Element | null = this.parent.firstElementChild;
    for (const item of items) {
      const row = this.#row(item);
      row.update(item);
      if (row.node === before) before = before.nextElementSibling;
      else this.parent.insertBefore(row.node, before);
    }
  }

  #row(item: T): Row<T> {
    const key = this.keyOf(item);
    const row = this.#rows.get(key) ?? this.make(item);
    this.#rows.set(key, row);
    return row;
  }
}
