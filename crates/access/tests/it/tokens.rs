use access::{
    Algorithm, Refusal, ValidUntil,
    test_issuer::{SECRET, SigningKey, claims, unsigned},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use proptest::prelude::*;
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};

use crate::test_env::{Files, user, verified};

#[tokio::test]
async fn the_subject_of_a_good_token_is_the_caller() {
    let files = Files::new();
    let (ed, rsa) = (SigningKey::ed25519("e1"), SigningKey::rsa("r1"));
    let both = files.verifier(&[Algorithm::EdDsa, Algorithm::Rs256], &[&ed, &rsa]);
    for key in [&ed, &rsa] {
        let found = verified(&both, &key.token(&claims(1000))).await;
        assert_eq!(found, Ok(user(1000)));
    }
    let hs = SigningKey::hs256(SECRET.as_bytes());
    let token = hs.token(&claims(i64::MAX));
    assert_eq!(
        verified(&files.hs256_verifier(), &token).await,
        Ok(user(i64::MAX))
    );
}

#[tokio::test]
async fn each_claim_is_asked_for() {
    let key = SigningKey::ed25519("e1");
    let verifier = Files::new().verifier(&[Algorithm::EdDsa], &[&key]);
    let with = |name: &str, value: Value| {
        let mut claims = claims(1000);
        claims[name] = value;
        claims
    };
    let without = |name: &str| {
        let mut claims = claims(1000);
        claims.as_object_mut().unwrap().remove(name);
        claims
    };
    let in_ms = json!(claims(1000)["exp"].as_i64().unwrap() * 1000);
    for (claims, refusal) in [
        (without("exp"), Refusal::Claim("exp")),
        (without("iss"), Refusal::Claim("iss")),
        (without("aud"), Refusal::Claim("aud")),
        (without("sub"), Refusal::Claim("sub")),
        (with("exp", json!("tomorrow")), Refusal::Claim("exp")),
        (with("exp", json!(null)), Refusal::Claim("exp")),
        (with("exp", json!(-1)), Refusal::Claim("exp")),
        (with("nbf", json!("x")), Refusal::Claim("nbf")),
        (with("exp", json!(1)), Refusal::Expired),
        (with("exp", in_ms), Refusal::TooLong),
        (with("aud", json!("another")), Refusal::Audience),
        (with("aud", json!(["another", "third"])), Refusal::Audience),
        (with("aud", json!([])), Refusal::Audience),
        (with("iss", json!("https://other.test")), Refusal::Issuer),
        (
            with("iss", json!(["https://id.test"])),
            Refusal::Claim("iss"),
        ),
        (with("sub", json!("0")), Refusal::Subject),
        (with("sub", json!("01000")), Refusal::Subject),
        (with("sub", json!("+1000")), Refusal::Subject),
        (with("sub", json!("alice")), Refusal::Subject),
        (with("sub", json!("9223372036854775808")), Refusal::Subject),
        (with("sub", json!(1000)), Refusal::Claim("sub")),
    ] {
        assert_eq!(
            verified(&verifier, &key.token(&claims)).await,
            Err(refusal),
            "{claims}"
        );
    }
    let several = key.token(&with("aud", json!(["another", "tidemark"])));
    assert_eq!(verified(&verifier, &several).await, Ok(user(1000)));
}

#[tokio::test]
async fn times_are_exact_with_the_leeway_on_either_side() {
    let key = SigningKey::ed25519("e1");
    // The leeway is 30 s by default.
    let verifier = Files::new().verifier(&[Algorithm::EdDsa], &[&key]);
    let start = OffsetDateTime::now_utc();
    let mut claims = claims(1000);
    claims["nbf"] = (start.unix_timestamp() + 100).into();
    claims["exp"] = (start.unix_timestamp() + 200).into();
    let token = key.token(&claims);
    for (after_s, expected) in [
        (69, Err(Refusal::NotYet)),
        (70, Ok(user(1000))),
        (229, Ok(user(1000))),
        (230, Err(Refusal::Expired)),
    ] {
        let now = start + Duration::seconds(after_s);
        assert_eq!(verifier.verify(&token, now).await, expected, "{after_s}");
    }
    let verified = verifier.verify_until(&token, start + Duration::seconds(100));
    let (_, ValidUntil(until)) = verified.await.unwrap();
    let left = until.unwrap() - start;
    assert!((229.0..231.0).contains(&left.as_seconds_f64()), "{left}");
}

#[tokio::test]
async fn a_token_does_not_choose_its_algorithm() {
    let files = Files::new();
    let (ed, rsa) = (SigningKey::ed25519("e1"), SigningKey::rsa("r1"));
    let verifier = files.verifier(&[Algorithm::Rs256], &[&ed, &rsa]);
    let claims = claims(1000);
    for alg in ["none", "None", "NONE", ""] {
        let header = json!({ "alg": alg, "kid": "r1" });
        let bare = format!("{}.", unsigned(&header, &claims));
        assert_eq!(
            verified(&verifier, &bare).await,
            Err(Refusal::Algorithm),
            "{alg}"
        );
        let signed = rsa.token_with(&header, &claims);
        assert_eq!(
            verified(&verifier, &signed).await,
            Err(Refusal::Algorithm),
            "{alg}"
        );
    }
    // The public key, which everybody has, as if it were a secret.
    let confused = SigningKey::hs256(&rsa.public_bytes);
    for alg in ["HS256", "RS256"] {
        let header = json!({ "alg": alg, "kid": "r1" });
        let refused = verified(&verifier, &confused.token_with(&header, &claims)).await;
        let right = [Refusal::Algorithm, Refusal::Signature];
        assert!(right.contains(&refused.unwrap_err()), "{alg}");
    }
    // A good key of an algorithm that this issuer is not pinned to, also under the name of another.
    assert_eq!(
        verified(&verifier, &ed.token(&claims)).await,
        Err(Refusal::Algorithm)
    );
    let header = json!({ "alg": "RS256", "kid": "e1" });
    let refused = verified(&verifier, &ed.token_with(&header, &claims)).await;
    assert_eq!(refused, Err(Refusal::UnknownKey));
    // With a secret only HS256 is taken.
    let refused = verified(&files.hs256_verifier(), &rsa.token(&claims)).await;
    assert_eq!(refused, Err(Refusal::Algorithm));
}

#[tokio::test]
async fn a_key_is_named_and_known() {
    let files = Files::new();
    let (known, other) = (SigningKey::ed25519("e1"), SigningKey::ed25519("e1"));
    let verifier = files.verifier(&[Algorithm::EdDsa], &[&known]);
    let claims = claims(1000);
    let of = |header: Value| known.token_with(&header, &claims);
    assert_eq!(
        verified(&verifier, &other.token(&claims)).await,
        Err(Refusal::Signature)
    );
    let nameless = of(json!({ "alg": "EdDSA" }));
    assert_eq!(verified(&verifier, &nameless).await, Err(Refusal::NoKeyId));
    let elsewhere = of(json!({ "alg": "EdDSA", "kid": "e2" }));
    assert_eq!(
        verified(&verifier, &elsewhere).await,
        Err(Refusal::UnknownKey)
    );
    let critical = of(json!({ "alg": "EdDSA", "kid": "e1", "crit": ["b64"], "b64": false }));
    assert_eq!(verified(&verifier, &critical).await, Err(Refusal::Critical));
    // A key that the token brings itself is not looked at.
    let own = other.token_with(
        &json!({ "alg": "EdDSA", "kid": "e1", "jku": "http://127.0.0.1:1/" }),
        &claims,
    );
    assert_eq!(verified(&verifier, &own).await, Err(Refusal::Signature));
}

#[tokio::test]
async fn a_changed_token_is_refused() {
    let key = SigningKey::ed25519("e1");
    let verifier = Files::new().verifier(&[Algorithm::EdDsa], &[&key]);
    let token = key.token(&claims(1000));
    let (message, signature) = token.rsplit_once('.').unwrap();
    let header = message.split_once('.').unwrap().0;
    let elevated = URL_SAFE_NO_PAD.encode(claims(1).to_string());
    let forged = format!("{header}.{elevated}.{signature}");
    assert_eq!(verified(&verifier, &forged).await, Err(Refusal::Signature));
    for bad in [
        message.to_owned(),
        format!("{message}."),
        format!("{token}.{signature}"),
        format!("{token}="),
        format!("{message}.{}", "A".repeat(86)),
        "..".to_owned(),
        "x.y.z".to_owned(),
        token.to_uppercase(),
    ] {
        let refused = verified(&verifier, &bad).await.unwrap_err();
        let right = [Refusal::Malformed, Refusal::Signature];
        assert!(right.contains(&refused), "{refused:?}");
    }
}

proptest! {
    #[test]
    fn anything_may_come_as_a_token(text in "(tmk_)?[ -~]{0,200}", flip in any::<prop::sample::Index>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let verifier = Files::new().hs256_verifier();
        let mut bytes = SigningKey::hs256(SECRET.as_bytes()).token(&claims(1000)).into_bytes();
        let at = flip.index(bytes.len());
        bytes[at] ^= 1;
        let changed = String::from_utf8(bytes).unwrap();
        for text in [text, changed] {
            prop_assert!(runtime.block_on(verified(&verifier, &text)).is_err(), "{}", text);
        }
    }
}
