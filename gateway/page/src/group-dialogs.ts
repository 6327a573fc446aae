import {
  checkChat,
  isUid,
  newId,
  splitKey,
  type ChatKey,
} from "@tidemark/client";
import { button, element, field, theirs, uidField } from "./dom.js";
import { awaitOutcome, errorText } from "./outcomes.js";
import type { Session } from "./session.js";

/** How long the stores may be behind what a device knows. */
const BEHIND_MS = 10_000;

interface Member {
  uid: string;
  role: string;
}

/** A dialog with a title, its content, a line for what goes wrong, and a way out. */
class Dialog {
  readonly node: HTMLDialogElement;
  readonly problem = element("p", { class: "problem", role: "alert" });

  constructor(title: (Node | string)[], ...content: HTMLElement[]) {
    const close = button("Close", {}, () => this.node.close());
    const heading = element("h3", {}, ...title);
    const parts = [heading, ...content, this.problem, close];
    const label = heading.textContent ?? "";
    this.node = element("dialog", { "aria-label": label }, ...parts);
    this.node.addEventListener("close", () => this.node.remove());
  }

  open(parent: HTMLElement): void {
    parent.append(this.node);
    this.node.showModal();
  }

  /** Does something, and closes unless that fails. Then something else may have the focus. */
  async attempt<T>(
    work: () => Promise<T>,
    then: (result: T) => void = () => undefined,
  ): Promise<void> {
    this.problem.textContent = "";
    try {
      const result = await work();
      this.node.close();
      then(result);
    } catch (error) {
      this.problem.textContent = `That failed: ${errorText(error)}`;
    }
  }
}

/** The uids of a text, with commas or spaces between them. */
function uidsOf(text: string): string[] {
  const uids = new Set(text.split(/[\s,;]+/).filter((word) => word !== ""));
  for (const uid of uids) {
    if (!isUid(uid)) throw new Error(`${uid} is not the number of a user`);
  }
  return [...uids];
}

/** Asks for a user, and opens the chat. */
export function openNewChat(
  parent: HTMLElement,
  open: (key: ChatKey) => void,
): void {
  const uid = uidField("Number of the user");
  const submit = element(
    "button",
    { type: "submit", class: "primary" },
    "Open",
  );
  const form = element("form", {}, uid.row, submit);
  const dialog = new Dialog(["New conversation"], form);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const key: ChatKey = `user:${uid.input.value}`;
    void dialog.attempt(
      async () => checkChat(key),
      () => open(key),
    );
  });
  dialog.open(parent);
}

/** Begins a group, and opens it. */
export function openNewGroup(
  session: Session,
  parent: HTMLElement,
  open: (key: ChatKey) => void,
): void {
  const name = field("Name", {
    maxlength: "100",
    required: true,
    dir: "auto",
  });
  const members = field("Members besides you (their numbers)", {
    placeholder: "1001, 1002",
    required: true,
  });
  const submit = element(
    "button",
    { type: "submit", class: "primary" },
    "Create",
  );
  const form = element("form", {}, name.row, members.row, submit);
  const dialog = new Dialog(["New group"], form);
  // A second attempt is the same group.
  const client_id = newId();
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void dialog.attempt(
      async () => {
        const accepted = await session.ingest.post(
          "/v1/groups",
          {},
          {
            owner: session.uid,
            name: name.input.value,
            members: uidsOf(members.input.value),
            client_id,
          },
        );
        await awaitOutcome(session.query, accepted);
        return accepted.gid;
      },
      (gid) => open(`group:${gid}`),
    );
  });
  dialog.open(parent);
}

/** Shows the members of a group; admins add some, everybody but the owner leaves. */
export function openMembers(
  session: Session,
  parent: HTMLElement,
  key: ChatKey,
): void {
  const chat = session.device.chats.get(key);
  if (chat?.with.type !== "group") return;
  const { name, role } = chat.with;
  const [, gid] = splitKey(key);
  // Focusable, so that the keyboard scrolls it.
  const attributes = {
    class: "members",
    tabindex: "0",
    "aria-label": "Members",
  };
  const list = element("ul", attributes);
  const added = field("Add members (their numbers)", { required: true });
  const submit = element("button", { type: "submit", class: "primary" }, "Add");
  const form = element("form", {}, added.row, submit);
  form.hidden = role === "member";
  const isOwner = role === "owner";
  const title = ["Members of ", theirs(name)];
  const leave = button(
    isOwner ? "End the group" : "Leave the group",
    { class: "danger" },
    () => change(() => (isOwner ? { dissolve: true } : { leave: true })),
  );
  const dialog = new Dialog(title, list, form, leave);
  const change = (what: () => object): void =>
    void dialog.attempt(async () => {
      const path = "/v1/groups/{gid}/changes";
      const body = { by: session.uid, ...what() };
      const accepted = await session.ingest.post(path, { gid }, body);
      await awaitOutcome(session.query, accepted);
    });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    change(() => ({ add: uidsOf(added.input.value) }));
  });
  dialog.open(parent);
  membersOf(session, key)
    .then((members) => {
      for (const { uid, role } of members) {
        const what = role === "member" ? "" : ` (${role})`;
        const name = session.names.of(uid);
        const number = name.endsWith(uid) ? "" : `, ${uid}`;
        list.append(element("li", {}, theirs(name), number + what));
      }
    })
    .catch((error: unknown) => {
      const text = errorText(error);
      dialog.problem.textContent = `The members are not known: ${text}`;
    });
}

/** The members as the device knows the group: one that has just begun is stored a moment later. */
async function membersOf(session: Session, key: ChatKey): Promise<Member[]> {
  const [, gid] = splitKey(key);
  const { token } = session.device;
  const after = token === null ? {} : { after: [token] };
  const members: Member[] = [];
  let cursor: string | null | undefined;
  do {
    const of = { uid: session.uid, timeout_ms: BEHIND_MS };
    const query = { ...of, ...after, ...(cursor ? { cursor } : {}) };
    const path = "/v1/groups/{gid}/members";
    const page = await session.query.get(path, { gid }, query);
    members.push(...page.items);
    cursor = page.next;
  } while (cursor);
  return members;
}
