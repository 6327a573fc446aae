//! What waits to be written to a connection: bounded, and never dropped silently.

use std::{
    collections::{HashMap, VecDeque, vec_deque},
    iter::Flatten,
    sync::Arc,
};

use api::HeadFrame;
use schemas::{GroupId, UserId};

use super::{Answer, audience::Audience, head, ring_event::RingEvent};
use crate::encoded::Encoded;

/// Something to be written.
#[derive(Clone, Debug)]
pub(crate) enum Outgoing {
    /// An event; the ring's own copy.
    Event(Arc<RingEvent>),
    /// In place of messages of a group and changes to them: how far the group has come.
    Head(HeadFrame),
    /// A token that covers everything before it.
    Ping(Arc<str>),
    /// What has become of a send of the device.
    Answer(Box<Answer>),
    /// A frame for this connection alone.
    Frame(Encoded),
}

/// An item does not fit any more: the connection is to be closed with a code that says resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueFull;

const HEAD_BYTES: usize = 100;

/// Frames in the order in which they are to be written, at most `limit` bytes of them.
pub(crate) struct Queue {
    /// The user whose messages are own ones.
    uid: UserId,
    /// `None` in place of an item whose content a later item repeats.
    items: VecDeque<Option<Outgoing>>,
    /// The number of the first item.
    first: u64,
    bytes: usize,
    limit: usize,
    /// What waits of each group, once the queue has collapsed, until it is empty.
    collapsed: Option<HashMap<GroupId, Waiting>>,
}

/// The numbers of the items into which later ones of a group collapse.
#[derive(Default)]
struct Waiting {
    head: Option<u64>,
    /// A change of the group that does not name the user.
    change: Option<u64>,
}

impl Queue {
    pub(crate) fn new(uid: UserId, limit: usize) -> Self {
        Self {
            uid,
            items: VecDeque::new(),
            first: 0,
            bytes: 0,
            limit,
            collapsed: None,
        }
    }

    /// Whether `bytes` may be added without a collapse.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.items.is_empty() || self.bytes + bytes <= self.limit
    }

    /// Whether what waits is to be written soon.
    pub(crate) fn is_half_full(&self) -> bool {
        self.bytes > self.limit / 2
    }

    /// Adds an item after all that waits. If more than `limit` bytes wait then, messages and changes of groups collapse. One item alone is never too
    /// much: it would be too much again after a resume.
    ///
    /// # Errors
    /// The queue is still too full after the collapse.
    pub(crate) fn push(&mut self, item: Outgoing) -> Result<(), QueueFull> {
        self.add(item);
        if self.is_too_full() && self.collapsed.is_none() {
            self.collapse();
        }
        if self.is_too_full() {
            return Err(QueueFull);
        }
        Ok(())
    }

    fn is_too_full(&self) -> bool {
        self.bytes > self.limit && self.items.len() > 1
    }

    /// The next thing to be written.
    pub(crate) fn pop(&mut self) -> Option<Outgoing> {
        let item = loop {
            let item = self.items.pop_front()?;
            self.first += 1;
            if let Some(item) = item {
                break item;
            }
        };
        self.bytes -= bytes_of(&item);
        if self.items.is_empty() {
            self.collapsed = None;
        }
        Some(item)
    }

    fn add(&mut self, item: Outgoing) {
        let head = match &item {
            Outgoing::Event(event) => head::head_of(event, self.uid),
            Outgoing::Head(head) => Some(*head),
            _ => None,
        };
        match head {
            Some(head) if self.collapsed.is_some() => self.add_head(head),
            _ => {
                self.add_change(&item);
                self.append(item);
            }
        }
    }

    fn append(&mut self, item: Outgoing) {
        self.bytes += bytes_of(&item);
        self.items.push_back(Some(item));
    }

    fn end(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    fn item(&mut self, number: Option<u64>) -> Option<&mut Option<Outgoing>> {
        let at = number?.checked_sub(self.first)?;
        self.items.get_mut(at as usize)
    }

    fn waiting(&mut self, gid: GroupId) -> Option<&mut Waiting> {
        Some(self.collapsed.as_mut()?.entry(gid).or_default())
    }

    fn add_head(&mut self, frame: HeadFrame) {
        let end = self.end();
        let waiting = self.waiting(frame.gid).and_then(|waiting| waiting.head);
        if let Some(Some(Outgoing::Head(waiting))) = self.item(waiting) {
            return head::merge(waiting, frame);
        }
        if let Some(waiting) = self.waiting(frame.gid) {
            waiting.head = Some(end);
        }
        self.append(Outgoing::Head(frame));
    }

    /// What comes after a change that names the user must not be merged into an item before that change: a device whose user leaves and joins again
    /// would forget it. The last of a group's other changes says all that those before it said: all settings, and how many members there are.
    fn add_change(&mut self, item: &Outgoing) {
        let Outgoing::Event(event) = item else { return };
        let Audience::Changed(gid, _) = event.audience else {
            return;
        };
        let (end, names_own) = (self.end(), event.audience.names(self.uid));
        let Some(waiting) = self.waiting(gid) else {
            return;
        };
        if names_own {
            *waiting = Waiting::default();
            return;
        }
        let earlier = waiting.change.replace(end);
        if let Some(earlier) = self.item(earlier).and_then(Option::take) {
            self.bytes -= bytes_of(&earlier);
        }
    }

    fn collapse(&mut self) {
        let items = std::mem::take(&mut self.items);
        self.bytes = 0;
        self.collapsed = Some(HashMap::new());
        for item in items.into_iter().flatten() {
            self.add(item);
        }
    }
}

impl IntoIterator for Queue {
    type Item = Outgoing;
    type IntoIter = Flatten<vec_deque::IntoIter<Option<Outgoing>>>;

    /// All that waits, in order.
    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter().flatten()
    }
}

fn bytes_of(item: &Outgoing) -> usize {
    match item {
        Outgoing::Event(event) => event.frame_bytes(),
        Outgoing::Head(_) => HEAD_BYTES,
        Outgoing::Ping(token) => token.len(),
        Outgoing::Answer(answer) => answer.bytes(),
        Outgoing::Frame(frame) => frame.len(),
    }
}

#[cfg(test)]
mod tests {
    use schemas::Change;

    use super::*;
    use crate::hub::test_events::{group_message, join, message, message_change, uid};

    fn drain(queue: &mut Queue) -> Vec<String> {
        let text = |item| match item {
            Outgoing::Event(event) => format!("event {}", event.at.offset),
            Outgoing::Head(head) => format!(
                "head {}-{} of {}: {}, own {}, chg {}",
                head.at.offset,
                head.until.offset,
                head.gid,
                head.mid,
                head.own_mid,
                head.change_seq
            ),
            Outgoing::Ping(token) => format!("ping {token}"),
            other => format!("{other:?}"),
        };
        std::iter::from_fn(|| queue.pop()).map(text).collect()
    }

    #[test]
    fn messages_of_groups_collapse_where_the_first_of_them_was() {
        let one = message(0, 1, 2).frame_bytes();
        let mut queue = Queue::new(uid(1), 5 * one);
        queue.push(Outgoing::Event(message(0, 1, 2))).unwrap();
        for (offset, gid, mid) in [(1, 7, 4), (2, 8, 1), (3, 7, 5)] {
            let event = Outgoing::Event(group_message(offset, gid, mid));
            queue.push(event).unwrap();
        }
        queue.push(Outgoing::Ping("t".into())).unwrap();
        queue.push(Outgoing::Event(message(4, 1, 2))).unwrap();
        queue.push(Outgoing::Event(group_message(5, 7, 6))).unwrap();
        queue.push(Outgoing::Event(group_message(6, 9, 1))).unwrap();
        assert_eq!(
            drain(&mut queue),
            [
                "event 0",
                "head 1-5 of 7: 6, own 6, chg 0",
                "head 2-2 of 8: 1, own 1, chg 0",
                "ping t",
                "event 4",
                "head 6-6 of 9: 1, own 1, chg 0"
            ]
        );
        queue.push(Outgoing::Event(group_message(7, 7, 7))).unwrap();
        assert_eq!(drain(&mut queue), ["event 7"]);
        assert_eq!(queue.bytes, 0);
    }

    /// Messages and changes are seen by all members; what one member hides is not.
    #[test]
    fn changes_of_messages_collapse_with_them() {
        let mut queue = Queue::new(uid(2), group_message(0, 7, 1).frame_bytes());
        for item in [
            group_message(1, 7, 1),
            message_change(2, 7, 1, Change::Recall),
            message_change(3, 7, 2, Change::Hide),
            message_change(4, 7, 3, Change::Recall),
            message_change(5, 7, 4, Change::Recall),
        ] {
            let _ = queue.push(Outgoing::Event(item));
        }
        assert_eq!(
            drain(&mut queue),
            ["head 1-5 of 7: 1, own 0, chg 4", "event 3"]
        );
    }

    #[test]
    fn what_comes_behind_a_change_that_names_the_user_is_said_behind_it() {
        let mut queue = Queue::new(uid(1), 2 * message(0, 1, 2).frame_bytes());
        for item in [
            group_message(1, 7, 1),
            group_message(2, 7, 2),
            message(3, 1, 2),
            join(4, 7, 3),
            group_message(5, 7, 3),
            group_message(6, 7, 4),
        ] {
            // It is too much, and counts as such.
            let _ = queue.push(Outgoing::Event(item));
        }
        assert_eq!(
            drain(&mut queue),
            [
                "head 1-2 of 7: 2, own 2, chg 0",
                "event 3",
                "event 4",
                "head 5-6 of 7: 4, own 4, chg 0"
            ]
        );
    }

    /// The last change says what those before it did. Messages between the changes stay one head.
    #[test]
    fn changes_of_a_group_that_do_not_name_the_user_collapse_into_the_last() {
        let one = join(0, 7, 0).frame_bytes();
        let mut queue = Queue::new(uid(2), 2 * one + HEAD_BYTES);
        queue.push(Outgoing::Event(message(0, 1, 2))).unwrap();
        for offset in 1..1_000 {
            let item = match offset % 2 {
                0 => group_message(offset, 7, offset),
                _ => join(offset, 7, offset),
            };
            queue.push(Outgoing::Event(item)).unwrap();
        }
        assert_eq!(
            drain(&mut queue),
            ["event 0", "head 2-998 of 7: 998, own 0, chg 0", "event 999"]
        );
        assert_eq!((queue.bytes, queue.items.len()), (0, 0));
    }

    #[test]
    fn what_cannot_collapse_is_too_much() {
        let one = message(0, 1, 2).frame_bytes();
        let mut queue = Queue::new(uid(2), 2 * one);
        for offset in 0..2 {
            queue.push(Outgoing::Event(message(offset, 1, 2))).unwrap();
        }
        let third = queue.push(Outgoing::Event(message(2, 1, 2)));
        assert_eq!(third, Err(QueueFull));
    }

    #[test]
    fn one_item_alone_is_never_too_much() {
        let mut queue = Queue::new(uid(2), 1);
        for offset in 0..2 {
            assert!(queue.has_room_for(100));
            queue.push(Outgoing::Event(message(offset, 1, 2))).unwrap();
            assert!(!queue.has_room_for(100));
            assert_eq!(drain(&mut queue), [format!("event {offset}")]);
        }
    }

    #[test]
    fn what_waits_is_counted_as_frames() {
        let event = message(0, 1, 2);
        let frame = event.frame_for(uid(2)).len();
        let counted = event.frame_bytes();
        assert!(
            (frame..2 * frame).contains(&counted),
            "{frame}, not {counted}"
        );
    }

    #[test]
    fn a_head_that_was_written_gets_a_successor() {
        let one = message(0, 1, 2).frame_bytes();
        let mut queue = Queue::new(uid(2), 2 * one);
        for mid in 1..=3 {
            queue
                .push(Outgoing::Event(group_message(mid, 7, mid)))
                .unwrap();
        }
        queue.push(Outgoing::Event(message(4, 1, 2))).unwrap();
        assert!(matches!(queue.pop(), Some(Outgoing::Head(head)) if head.mid.get() == 3));
        queue.push(Outgoing::Event(group_message(5, 7, 5))).unwrap();
        assert_eq!(
            drain(&mut queue),
            ["event 4", "head 5-5 of 7: 5, own 0, chg 0"]
        );
    }
}
