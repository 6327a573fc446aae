import { element } from "./dom.js";
import { Place } from "./place.js";
import type { User } from "./session.js";
import { readSettings, type PageSettings } from "./settings.js";

/** The devices that the address names: `#1000/pc+1001/mobile`. */
function usersOfAddress(): User[] {
  const parts = location.hash.slice(1).split("+");
  return parts.flatMap((part) => {
    const [, uid, cls] = /^([1-9]\d*)\/(pc|mobile)$/.exec(part) ?? [];
    return uid === undefined
      ? []
      : [{ uid, cls: cls === "mobile" ? cls : "pc" }];
  });
}

function show(
  settings: PageSettings,
  main: HTMLElement,
  toggle: HTMLElement,
): void {
  const users = usersOfAddress();
  // A token is not kept, so a reload asks for it again.
  const remember = (): void => {
    const all = [first, second].map((place) => place.user);
    const parts = all.flatMap((user) =>
      user === null || user.token !== undefined
        ? []
        : [`${user.uid}/${user.cls}`],
    );
    const address = parts.length === 0 ? "/" : `/#${parts.join("+")}`;
    history.replaceState(null, "", address);
  };
  const first = new Place(settings, "First device", "pc", remember);
  const second = new Place(settings, "Second device", "mobile", remember);
  main.replaceChildren(first.node, second.node);
  const showSecond = (isShown: boolean): void => {
    second.node.hidden = !isShown;
    toggle.setAttribute("aria-pressed", String(isShown));
    document.body.classList.toggle("two", isShown);
  };
  toggle.addEventListener("click", () => {
    const isShown = second.node.hidden === false;
    showSecond(!isShown);
    if (isShown) void second.close();
  });
  showSecond(users.length > 1);
  if (settings.authenticates) return;
  const [one, two] = users;
  void (async () => {
    // One after the other, so that each finds its own storage again.
    if (one !== undefined) await first.begin(one);
    if (two !== undefined) await second.begin(two);
  })();
}

async function start(): Promise<void> {
  const main = document.querySelector<HTMLElement>("#devices");
  const toggle = document.querySelector<HTMLElement>("#second");
  if (main === null || toggle === null)
    throw new Error("the page is not whole");
  try {
    show(await readSettings(), main, toggle);
  } catch (error) {
    const attributes = { class: "problem", role: "alert" };
    main.replaceChildren(
      element("p", attributes, `The page cannot begin: ${String(error)}`),
    );
  }
}

void start();
