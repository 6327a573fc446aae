use std::{fs, sync::Arc};

use access::{
    Algorithm, AuthConfig, Refusal, Verifier,
    test_issuer::{KeyServer, SigningKey, claims, jwks},
};
use axum::http::StatusCode;

use crate::test_env::{Files, auth, issuer, until, user, verified};

fn config(server: &KeyServer) -> AuthConfig {
    let mut issuer = issuer(&[Algorithm::EdDsa, Algorithm::Rs256]);
    issuer.jwks_url = Some(server.url());
    AuthConfig {
        jwks_retry_s: 1,
        ..auth([issuer])
    }
}

/// Asks for this until the set was fetched once more, which is not before the retry is over.
async fn until_fetched_again(server: &KeyServer, verifier: &Verifier, token: &str) {
    let before = server.asked();
    until("the set is fetched again", async || {
        let _ = verified(verifier, token).await;
        server.asked() > before
    })
    .await;
}

#[tokio::test]
async fn keys_rotate() {
    let (old, new) = (SigningKey::ed25519("k1"), SigningKey::rsa("k2"));
    let (of_old, of_new) = (old.token(&claims(1)), new.token(&claims(2)));
    let server = KeyServer::start(&[&old]).await;
    let verifier = Verifier::open(&config(&server)).unwrap();
    assert_eq!(server.asked(), 0, "nothing is fetched before it is needed");
    assert_eq!(verified(&verifier, &of_old).await, Ok(user(1)));
    assert_eq!(verified(&verifier, &of_old).await, Ok(user(1)));
    assert_eq!(server.asked(), 1, "the set is cached");

    server.publish(&[&old, &new]);
    until_fetched_again(&server, &verifier, &of_new).await;
    assert_eq!(verified(&verifier, &of_new).await, Ok(user(2)));
    assert_eq!(verified(&verifier, &of_old).await, Ok(user(1)));
    assert_eq!(server.asked(), 2);

    server.publish(&[&new]);
    // Whoever names an unknown key makes the set be read; what left it is gone then.
    let third = SigningKey::ed25519("k3").token(&claims(3));
    until_fetched_again(&server, &verifier, &third).await;
    assert_eq!(verified(&verifier, &third).await, Err(Refusal::UnknownKey));
    assert_eq!(verified(&verifier, &of_old).await, Err(Refusal::UnknownKey));
    assert_eq!(verified(&verifier, &of_new).await, Ok(user(2)));
}

#[tokio::test]
async fn unknown_keys_do_not_make_the_issuer_be_asked_all_the_time() {
    let known = SigningKey::ed25519("k1");
    let server = KeyServer::start(&[&known]).await;
    let mut config = config(&server);
    config.jwks_retry_s = 3_600;
    let verifier = Arc::new(Verifier::open(&config).unwrap());
    let tasks = (0..50).map(|n| {
        let verifier = Arc::clone(&verifier);
        let token = SigningKey::ed25519(&format!("made-up-{n}")).token(&claims(1));
        tokio::spawn(async move { verified(&verifier, &token).await })
    });
    for task in tasks.collect::<Vec<_>>() {
        assert_eq!(task.await.unwrap(), Err(Refusal::UnknownKey));
    }
    assert_eq!(server.asked(), 1);
    assert_eq!(
        verified(&verifier, &known.token(&claims(1))).await,
        Ok(user(1))
    );
}

#[tokio::test]
async fn the_last_good_set_stays_while_the_issuer_is_away() {
    let (known, new) = (SigningKey::ed25519("k1"), SigningKey::ed25519("k2"));
    let server = KeyServer::start(&[&known]).await;
    let verifier = Verifier::open(&config(&server)).unwrap();
    let (of_known, of_new) = (known.token(&claims(1)), new.token(&claims(2)));
    assert_eq!(verified(&verifier, &of_known).await, Ok(user(1)));
    let huge = format!("{{\"keys\":[{}]}}", "1,".repeat(1024 * 1024));
    for (status, body) in [
        (StatusCode::INTERNAL_SERVER_ERROR, "oops"),
        (StatusCode::OK, "<html>maintenance</html>"),
        (StatusCode::OK, &huge),
        (StatusCode::FOUND, ""),
    ] {
        server.answer_as(status, body);
        until_fetched_again(&server, &verifier, &of_new).await;
        assert_eq!(
            verified(&verifier, &of_new).await,
            Err(Refusal::KeysAway),
            "{status}"
        );
        assert_eq!(
            verified(&verifier, &of_known).await,
            Ok(user(1)),
            "{status}"
        );
    }
    server.publish(&[&known, &new]);
    until_fetched_again(&server, &verifier, &of_new).await;
    assert_eq!(verified(&verifier, &of_new).await, Ok(user(2)));
}

#[tokio::test]
async fn nobody_can_tell_before_the_first_fetch_succeeds() {
    let key = SigningKey::ed25519("k1");
    let server = KeyServer::start(&[&key]).await;
    let mut away = config(&server);
    away.issuers[0].jwks_url = Some("http://127.0.0.1:1/jwks.json".to_owned());
    let verifier = Verifier::open(&away).unwrap();
    let refused = verified(&verifier, &key.token(&claims(1))).await;
    assert_eq!(refused, Err(Refusal::KeysAway));
}

#[tokio::test]
async fn a_file_of_keys_is_read_again_and_a_bad_one_is_not_taken() {
    let files = Files::new();
    let (old, new) = (SigningKey::ed25519("k1"), SigningKey::ed25519("k2"));
    let verifier = files.verifier(&[Algorithm::EdDsa], &[&old]);
    let path = files.0.path().join("jwks.json");
    let (of_old, of_new) = (old.token(&claims(1)), new.token(&claims(2)));
    fs::write(&path, "{").unwrap();
    verifier.reload_files();
    assert_eq!(verified(&verifier, &of_old).await, Ok(user(1)));
    fs::write(&path, jwks(&[&new]).to_string()).unwrap();
    verifier.reload_files();
    assert_eq!(verified(&verifier, &of_new).await, Ok(user(2)));
    assert_eq!(verified(&verifier, &of_old).await, Err(Refusal::UnknownKey));
}
