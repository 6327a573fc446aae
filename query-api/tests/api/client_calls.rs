//! Groups, as other programs read them: by the client.

use client::{
    ChangesAfter, ChangesQuery, Client, ClientError, ConversationsQuery, GroupsQuery, MembersQuery,
    MessagesQuery, Order, ReadOptions, Retry,
};
use schemas::{Change, ChangeSeq, GroupRole, Mid, PerDevice};

use crate::{
    chat::{Chat, change_seq, fresh_user, mid},
    deployment::Deployment,
    group::Group,
    service::Service,
};

async fn env() -> (&'static Deployment, Client, Service) {
    let deployment = Deployment::shared().await;
    let service = Service::start(&deployment.config).await;
    let url = format!("http://{}", service.addr);
    let client = Client::builder(&url, &url).retry(Retry::NEVER);
    (deployment, client.build().unwrap(), service)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_reads_a_group() {
    let (deployment, client, _service) = env().await;
    let now = ReadOptions::default();
    let mut group = Group::new();
    group.say(group.owner, "before");
    let me = group.joined();
    group.say(me, "one");
    group.say(group.owner, "two");
    group.change(group.owner, 3, Change::Edit("zwei".to_owned()));
    group.write(deployment).await;

    let read = client.group(group.gid, me, &now).await.unwrap();
    assert_eq!((read.name.as_str(), read.owner), ("Lunch", group.owner));
    assert_eq!(
        (read.last_mid, read.change_seq, read.member_count),
        (mid(3), change_seq(1), 2)
    );
    let member = &read.member;
    assert_eq!((member.uid, member.role), (me, GroupRole::Member));
    assert_eq!((member.muted, member.join_mid), (false, mid(1)));

    let mut uids = Vec::new();
    let mut which = MembersQuery {
        limit: Some(1),
        cursor: None,
    };
    loop {
        let page = client.group_members(group.gid, me, &which, &now);
        let page = page.await.unwrap();
        uids.extend(page.items.iter().map(|member| member.uid));
        which.cursor = page.next;
        if which.cursor.is_none() {
            break;
        }
    }
    let all: Vec<_> = group.members.keys().copied().collect();
    assert_eq!(uids, all);

    let which = MessagesQuery {
        order: Order::After(Mid::ZERO),
        ..MessagesQuery::default()
    };
    let page = client.group_messages(group.gid, me, &which, &now);
    let page = page.await.unwrap();
    let texts: Vec<&str> = page.items.iter().map(|item| item.msg.as_str()).collect();
    assert_eq!(texts, ["one", "zwei"]);
    assert_eq!(
        (page.items[0].gid, page.items[0].destid),
        (Some(group.gid), None)
    );

    let which = ChangesQuery::default();
    let changes = client.group_changes(group.gid, me, &which, &now);
    let changes = changes.await.unwrap();
    assert_eq!(changes.items[0].msg.as_deref(), Some("zwei"));
    let which = ChangesQuery {
        after: ChangesAfter {
            change_seq: change_seq(1),
            own_pos: 0,
        },
        limit: None,
    };
    let changes = client.group_changes(group.gid, me, &which, &now);
    assert!(changes.await.unwrap().items.is_empty());

    let refused = client.group(group.gid, fresh_user(), &now).await;
    let Err(ClientError::Problem(problem)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(problem.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_lists_groups_alone_and_along_with_users() {
    let (deployment, client, _service) = env().await;
    let now = ReadOptions::default();
    let me = fresh_user();
    let mut groups = [Group::new(), Group::new()];
    groups.sort_by_key(|group| group.gid);
    for group in &mut groups {
        group.join(me, GroupRole::Admin);
        group.say(group.owner, "hello");
        group.write(deployment).await;
    }
    let mut chat = Chat::between(me, fresh_user());
    chat.say(chat.peer, "older", 60_000);
    deployment.write_contacts(&[chat.contact(0, 0)]).await;

    let mut which = GroupsQuery {
        limit: Some(1),
        cursor: None,
    };
    for group in &groups {
        let page = client.groups(me, &which, &now).await.unwrap();
        let [item] = &page.items[..] else {
            panic!("{page:?}");
        };
        assert_eq!((item.gid, item.role), (group.gid, GroupRole::Admin));
        assert_eq!(item.unread, PerDevice { pc: 1, mobile: 1 });
        assert_eq!((item.last_mid, item.change_seq), (mid(1), ChangeSeq::ZERO));
        assert_eq!(item.last.as_ref().unwrap().msg, "hello");
        which.cursor = page.next;
    }
    assert_eq!(which.cursor, None);

    let which = ConversationsQuery::default();
    let list = client.conversations(me, &which, &now).await.unwrap();
    assert_eq!(list.items.len(), 3);
    for item in &list.items[..2] {
        assert!(groups.iter().any(|group| Some(group.gid) == item.gid));
        assert_eq!((item.peer, item.name.as_deref()), (None, Some("Lunch")));
    }
    let last = &list.items[2];
    assert_eq!((last.peer, last.gid), (Some(chat.peer), None));
    assert_eq!(last.last.as_ref().unwrap().destid, Some(me));
}
