import { ServiceError, type QueryPaths, type Service } from "@tidemark/client";

/** How long it may take until it is known what became of a change. */
const TIMEOUT_MS = 5_000;
const RETRY_MS = 100;

const REASONS: Record<string, string> = {
  blocked: "you are blocked there",
  dissolved: "the group has ended",
  "group-full": "the group is full",
  "has-left": "somebody whom you add has left the group, and has to come back by himself",
  muted: "you may not write here",
  "no-right": "only admins may do that",
  "not-a-member": "you are not a member of this group",
  "not-the-author": "it is not your message",
  recalled: "it was recalled before",
  "too-late": "it is too old for that",
  "too-many-conversations": "you have begun too many conversations today",
  "too-many-memberships": "you have added too many people today, or somebody is in too many groups",
  "too-old": "it is too old for that",
  "unknown-group": "there is no such group",
};

/** Why something was refused, for people: in the page's words, or in those of whoever has refused it. */
export function reasonText(reason: string, detail = ""): string {
  return REASONS[reason] ?? (detail || reason);
}

/** What an error says, for people. */
export function errorText(error: unknown): string {
  if (error instanceof ServiceError) {
    return error.problem?.detail ?? "there is no connection";
  }
  return error instanceof Error ? error.message : String(error);
}

/** Where an accepted command is on the log. */
export interface Accepted {
  partition: number;
  offset: number;
}

/** What was accepted may be refused on the log. Throws the reason, or that nothing is known of it in time. */
export async function awaitOutcome(
  query: Service<QueryPaths>,
  accepted: Accepted,
): Promise<void> {
  const { partition, offset } = accepted;
  const end = Date.now() + TIMEOUT_MS;
  for (;;) {
    const outcome = await query.get(
      "/v1/inbound/{partition}/{offset}",
      { partition, offset },
      { timeout_ms: TIMEOUT_MS },
    );
    if (outcome.state === "refused") {
      throw new Error(reasonText(outcome.reason));
    }
    if (outcome.state !== "pending") return;
    if (Date.now() > end) {
      throw new Error("it is not known yet, and may still be done");
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}
