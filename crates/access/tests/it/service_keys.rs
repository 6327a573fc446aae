use std::fs;

use access::{AuthConfig, Caller, KeyEntry, Refusal, Scope, ServiceKey, Verifier};

use crate::test_env::{Files, verified};

fn entry(key: &ServiceKey) -> String {
    KeyEntry::of(key, "mailer".to_owned(), [Scope::SendAny].into(), None).to_toml()
}

#[tokio::test]
async fn keys_come_and_go_with_their_file() {
    let files = Files::new();
    let (first, second) = (
        ServiceKey::generate().unwrap(),
        ServiceKey::generate().unwrap(),
    );
    let path = files.write("keys.toml", &entry(&first));
    let config = AuthConfig {
        keys_file: Some(path.clone()),
        ..AuthConfig::default()
    };
    let verifier = Verifier::open(&config).unwrap();
    let holds = async |key: &ServiceKey| match verified(&verifier, key.text().expose()).await {
        Ok(Caller::Service(service)) => service.id == key.id(),
        Ok(other) => panic!("{other:?}"),
        Err(refusal) => {
            assert_eq!(refusal, Refusal::ServiceKey);
            false
        }
    };
    assert!(holds(&first).await && !holds(&second).await);
    fs::write(&path, entry(&first) + &entry(&second)).unwrap();
    verifier.reload_files();
    assert!(holds(&first).await && holds(&second).await);
    // A bad file revokes nobody, and lets nobody in.
    fs::write(&path, "[[keys]]\nid = 5").unwrap();
    verifier.reload_files();
    assert!(holds(&first).await && holds(&second).await);
    fs::write(&path, entry(&second)).unwrap();
    verifier.reload_files();
    assert!(!holds(&first).await && holds(&second).await);
    fs::write(&path, "").unwrap();
    verifier.reload_files();
    assert!(!holds(&second).await);
}
