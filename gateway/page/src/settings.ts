/** What the gateway tells the page of its stack. */
export interface PageSettings {
  ingest: string;
  query: string;
  /** Callers have tokens; otherwise a user is chosen. */
  authenticates: boolean;
  max_msg_bytes: number;
}

export async function readSettings(): Promise<PageSettings> {
  const response = await fetch("/page/settings.json");
  if (!response.ok) throw new Error(`the gateway answers ${response.status}`);
  return (await response.json()) as PageSettings;
}
