//! Exports of a real log into a folder, read again by another reader of Parquet's files.

#![expect(clippy::unwrap_used, reason = "a failed step of a test ends the test")]

mod bucket;
mod lake_folder;
mod story;

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

use export::{Dataset, Export, ExportError, Lake, Privacy, Pseudonyms};
use schemas::Change;

use crate::{
    bucket::Bucket,
    lake_folder::LakeFolder,
    story::{DAY_MS, Story},
};

#[tokio::test(flavor = "multi_thread")]
async fn every_event_is_a_row_once_although_a_former_owner_has_repeated_it() {
    let story = Story::told().await;
    for dataset in Dataset::ALL {
        let lake = LakeFolder::new();
        lake.export(&story, dataset).await.unwrap();
        let expected = story.offsets(dataset);
        assert!(!expected.is_empty(), "{}", dataset.name());
        assert_eq!(lake.offsets(dataset), expected, "{}", dataset.name());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_in_its_newest_state_and_a_recalled_one_has_no_text() {
    let story = Story::told().await;
    let lake = LakeFolder::new();
    lake.export(&story, Dataset::Messages).await.unwrap();
    lake.export(&story, Dataset::Changes).await.unwrap();
    let texts = lake.texts(Dataset::Messages, "msg");
    assert_eq!(
        texts,
        [Some("edited"), None, Some("stays"), Some("the next day")]
            .map(|text| text.map(str::to_owned))
    );
    assert_eq!(
        lake.texts(Dataset::Messages, "recalled")[1].as_deref(),
        Some("recall")
    );
    assert_eq!(lake.lists(Dataset::Messages, "reactions")[2], ["👍"]);
    let edits = lake.texts(Dataset::Changes, "msg");
    assert!(edits.contains(&Some("edited".to_owned())));
    assert!(
        !edits.contains(&Some("edited before the recall".to_owned())),
        "{edits:?}"
    );

    let with_recalled = Privacy {
        with_recalled: true,
        ..Privacy::default()
    };
    let lake = LakeFolder::under(with_recalled);
    lake.export(&story, Dataset::Messages).await.unwrap();
    let texts = lake.texts(Dataset::Messages, "msg");
    assert_eq!(texts[1].as_deref(), Some("edited before the recall"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_private_stays_private() {
    let story = Story::told().await;
    let pseudonyms = |secret: &str| Privacy {
        pseudonyms: Some(Pseudonyms::new(secret.as_bytes()).unwrap()),
        ..Privacy::default()
    };
    let (one, other) = ("a secret of one analyst", "a secret of another one");
    let [lake, same, different] =
        [one, one, other].map(|secret| LakeFolder::under(pseudonyms(secret)));
    for lake in [&lake, &same, &different] {
        lake.export(&story, Dataset::Messages).await.unwrap();
        lake.export(&story, Dataset::Profiles).await.unwrap();
    }
    let senders = lake.numbers(Dataset::Messages, "srcid");
    assert_eq!(senders, same.numbers(Dataset::Messages, "srcid"));
    assert_eq!(senders[0], senders[1], "both are of one user");
    assert_ne!(senders, different.numbers(Dataset::Messages, "srcid"));
    assert!(!senders.contains(&Some(1001)));
    // The profile is of the sender of the first message.
    assert_eq!(lake.numbers(Dataset::Profiles, "uid")[0], senders[0]);
    assert_eq!(lake.texts(Dataset::Profiles, "nick"), [None]);
    assert_ne!(
        lake.texts(Dataset::Messages, "client_msg_id")[0].as_deref(),
        Some("m-1")
    );

    let without_texts = Privacy {
        without_texts: true,
        ..Privacy::default()
    };
    let lake = LakeFolder::under(without_texts);
    lake.export(&story, Dataset::Messages).await.unwrap();
    assert_eq!(lake.texts(Dataset::Messages, "msg"), vec![None; 4]);
    assert_eq!(lake.numbers(Dataset::Messages, "srcid")[0], Some(1001));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_missing_is_written_again_with_the_same_bytes() {
    let story = Story::told().await;
    let lake = LakeFolder::new();
    lake.export(&story, Dataset::Messages).await.unwrap();
    let files = lake.files();
    assert_eq!(files.len(), 2, "a file for each day");
    for lost in files.keys() {
        // As after a crash between the claim of the range and the file.
        std::fs::remove_file(lake.path().join(lost)).unwrap();
        lake.export(&story, Dataset::Messages).await.unwrap();
        assert_eq!(lake.files(), files, "{lost}");
    }
    let written = lake.export(&story, Dataset::Messages).await.unwrap();
    assert_eq!(
        (written.rows, written.files),
        (0, 0),
        "nothing is left to do"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_written_after_a_recall_lacks_the_text() {
    let mut story = Story::told().await;
    let lake = LakeFolder::new();
    lake.export(&story, Dataset::Messages).await.unwrap();
    assert!(lake.has_text("stays"));
    // As after a crash between the claims and the files.
    for lost in lake.files().keys() {
        std::fs::remove_file(lake.path().join(lost)).unwrap();
    }
    story.change(6, 3, Change::Recall, DAY_MS + 5).await;
    lake.export(&story, Dataset::Messages).await.unwrap();
    assert!(!lake.has_text("stays"));
    assert_eq!(
        lake.offsets(Dataset::Messages),
        story.offsets(Dataset::Messages)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_goes_on_where_the_one_before_ended() {
    let mut story = Story::told().await;
    let lake = LakeFolder::new();
    lake.export(&story, Dataset::Events).await.unwrap();
    story.repeat_all().await;
    story.send(1001, "after the export", DAY_MS + 5).await;
    let written = lake.export(&story, Dataset::Events).await.unwrap();
    assert_eq!(written.rows, 1, "the watermark is in the manifest");
    assert_eq!(
        lake.offsets(Dataset::Events),
        story.offsets(Dataset::Events)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_in_the_middle_knows_what_was_before() {
    let mut story = Story::told().await;
    let from = story.end();
    story.repeat_all().await;
    story.send(1001, "new", DAY_MS + 5).await;
    let lake = LakeFolder::new();
    let written = lake
        .export_from(&story, Dataset::Events, from)
        .await
        .unwrap();
    assert_eq!(written.rows, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_exporters_of_the_same_range_none_writes_a_row_twice() {
    let story = Story::told().await;
    let lake = Arc::new(LakeFolder::new());
    let (one, other) = tokio::join!(
        lake.export(&story, Dataset::Events),
        lake.export(&story, Dataset::Events)
    );
    for ended in [one, other] {
        match ended {
            Ok(_) | Err(ExportError::Busy { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    lake.export(&story, Dataset::Events).await.unwrap();
    assert_eq!(
        lake.offsets(Dataset::Events),
        story.offsets(Dataset::Events)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_exporters_of_ranges_that_overlap_none_writes_a_row_twice() {
    let story = Story::told().await;
    let offsets = story.offsets(Dataset::Events);
    for _ in 0..5 {
        let lake = LakeFolder::new();
        let later = lake.export_from(&story, Dataset::Events, 2);
        let (whole, later) = tokio::join!(lake.export(&story, Dataset::Events), later);
        for failed in [whole, later].into_iter().filter_map(Result::err) {
            let is_told = matches!(
                failed,
                ExportError::Busy { .. } | ExportError::Unfinished { .. }
            );
            assert!(is_told, "{failed}");
        }
        let written = lake.offsets(Dataset::Events);
        let once: BTreeSet<_> = written.iter().collect();
        assert_eq!(once.len(), written.len(), "{written:?}");
        assert!(written.iter().all(|one| offsets.contains(one)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_follow_share_the_partitions_and_write_each_row_once() {
    let mut story = Story::told().await;
    let lake = LakeFolder::new();
    let start = || {
        let export = lake.of(&story, Dataset::Events);
        tokio::spawn(async move { export.follow(Duration::from_millis(200), |_| {}).await })
    };
    let first = start();
    lake.wait_for(&story).await;
    let others = [start(), start()];
    for n in 0..5 {
        story
            .send(1001, &format!("followed {n}"), DAY_MS + 10 + n)
            .await;
        story.repeat_all().await;
        lake.wait_for(&story).await;
        if n == 2 {
            first.abort();
        }
    }
    assert_eq!(
        lake.offsets(Dataset::Events),
        story.offsets(Dataset::Events)
    );
    for other in others {
        other.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_gets_the_same_files_as_a_folder() {
    let story = Story::told().await;
    let folder = LakeFolder::new();
    let bucket = Bucket::start().await;
    let mut in_bucket = folder.of(&story, Dataset::Messages);
    in_bucket.lake = bucket.lake("a-secret-of-nobody");
    let refused = in_bucket.run(story.everything(), Arc::new(|_| {})).await;
    assert!(matches!(refused, Err(ExportError::Store(_))), "{refused:?}");
    in_bucket.lake = bucket.right_lake();
    let written = in_bucket
        .run(story.everything(), Arc::new(|_| {}))
        .await
        .unwrap();
    assert_eq!(
        written,
        folder.export(&story, Dataset::Messages).await.unwrap()
    );
    assert_eq!(LakeFolder::at(bucket.copied()).files(), folder.files());
    let again = in_bucket
        .run(story.everything(), Arc::new(|_| {}))
        .await
        .unwrap();
    assert_eq!(again.files, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lake_with_other_options_is_left_alone() {
    let story = Story::told().await;
    let lake = LakeFolder::new();
    lake.export(&story, Dataset::Messages).await.unwrap();
    let before = lake.files();
    let pseudonyms = Pseudonyms::new(b"a secret of one analyst").unwrap();
    for (privacy, what) in [
        (
            Privacy {
                pseudonyms: Some(pseudonyms),
                ..Privacy::default()
            },
            "with no pseudonyms",
        ),
        (
            Privacy {
                without_texts: true,
                ..Privacy::default()
            },
            "with texts",
        ),
        (
            Privacy {
                with_recalled: true,
                ..Privacy::default()
            },
            "with no texts of recalled messages",
        ),
    ] {
        let refused = lake.with(privacy).export(&story, Dataset::Messages).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(what), "{refused}");
    }
    assert_eq!(lake.files(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_was_edited_is_refused() {
    let story = Story::told().await;
    let lake = LakeFolder::new();
    lake.export(&story, Dataset::Messages).await.unwrap();
    let entry = lake.an_entry(Dataset::Messages);
    let text = std::fs::read_to_string(&entry).unwrap();
    for (edited, what) in [
        (text.replace("\"number\": 0", "\"number\": 1"), "hash"),
        (text.replace("\"rows\": ", "\"rows\": 1"), "hash"),
        (text.replace("\"rows\"", "\"lines\""), "hash"),
        (text[..text.len() / 2].to_owned(), "EOF"),
    ] {
        assert_ne!(edited, text);
        std::fs::write(&entry, edited).unwrap();
        let refused = lake.export(&story, Dataset::Messages).await.unwrap_err();
        assert!(matches!(refused, ExportError::Manifest { .. }), "{refused}");
        assert!(refused.to_string().contains(what), "{refused}");
    }
    std::fs::write(&entry, text).unwrap();
    let second = entry.with_file_name("000000001.json");
    std::fs::copy(&entry, &second).unwrap();
    let refused = lake.export(&story, Dataset::Messages).await.unwrap_err();
    assert!(
        refused.to_string().contains("not where it belongs"),
        "{refused}"
    );
    std::fs::remove_file(second).unwrap();
    for (file, field) in [
        ("options.json", "\"format\": "),
        ("plan.json", "\"start\": "),
    ] {
        let file = lake.path().join("messages/_manifest").join(file);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replacen(field, &format!("{field}1"), 1)).unwrap();
        let refused = lake.export(&story, Dataset::Messages).await.unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("its hash is not that of its content"),
            "{refused}"
        );
        std::fs::write(&file, text).unwrap();
    }
    lake.export(&story, Dataset::Messages).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_estimate_counts_what_is_not_exported_yet_and_writes_nothing() {
    let story = Story::told().await;
    let lake = LakeFolder::new();
    let nowhere = lake.path().join("nowhere");
    let estimate = async |folder: &Path| {
        let export = Export {
            lake: Lake::open(folder.to_str().unwrap(), [], true).unwrap(),
            ..lake.of(&story, Dataset::Messages)
        };
        export.estimate(story.everything()).await.unwrap().records
    };
    assert!(estimate(&nowhere).await > 0);
    assert!(!nowhere.exists());
    lake.export(&story, Dataset::Messages).await.unwrap();
    assert_eq!(estimate(lake.path()).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_takes_nothing_leaves_nothing_half_done() {
    let story = Story::told().await;
    let lake = LakeFolder::new();
    lake.export(&story, Dataset::Profiles).await.unwrap();
    // A file where the folder of a day would be.
    let messages = lake.path().join("messages");
    std::fs::create_dir_all(&messages).unwrap();
    std::fs::write(messages.join("day=1970-01-02"), "").unwrap();
    let failed = lake.export(&story, Dataset::Messages).await.unwrap_err();
    assert!(matches!(failed, ExportError::Store(_)), "{failed}");
    std::fs::remove_file(messages.join("day=1970-01-02")).unwrap();
    lake.export(&story, Dataset::Messages).await.unwrap();
    assert_eq!(
        lake.offsets(Dataset::Messages),
        story.offsets(Dataset::Messages)
    );
}
