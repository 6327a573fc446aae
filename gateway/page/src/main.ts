import { addressOf, devicesOf } from "./address.js";
import { element } from "./dom.js";
import { Place } from "./place.js";
import { readSettings, type PageSettings } from "./settings.js";

function show(
  settings: PageSettings,
  main: HTMLElement,
  toggle: HTMLElement,
): void {
  const { users, problem } = devicesOf(location.hash);
  const wrong = element("p", { class: "problem", role: "alert" });
  main.before(wrong);
  // A token is not kept, so a reload asks for it again.
  const remember = (): void => {
    const all = [first, second].flatMap(({ user }) => user ?? []);
    const open = all.filter(({ token }) => token === undefined);
    history.replaceState(null, "", addressOf(open));
    wrong.textContent = "";
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
  if (settings.authenticates) {
    if (location.hash !== "") {
      wrong.textContent =
        "Here a device begins with a token: the address does not name it.";
    }
    return;
  }
  const [one, two] = users;
  void (async () => {
    // One after the other, so that each finds its own storage again.
    if (one !== undefined) await first.begin(one);
    if (two !== undefined) await second.begin(two);
    wrong.textContent = problem;
  })();
  // Somebody has changed the address.
  addEventListener("hashchange", () => location.reload());
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
