const TIME: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit" };
const DAY: Intl.DateTimeFormatOptions = { day: "numeric", month: "short" };

/** Hour and minute; in front of it the day, where that is not today. */
export function timeText(ts: string): string {
  const at = new Date(ts);
  const time = at.toLocaleTimeString([], TIME);
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? time : `${at.toLocaleDateString([], DAY)}, ${time}`;
}

/** The hour today, otherwise the day. */
export function shortTimeText(ts: string): string {
  const at = new Date(ts);
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday
    ? at.toLocaleTimeString([], TIME)
    : at.toLocaleDateString([], DAY);
}
