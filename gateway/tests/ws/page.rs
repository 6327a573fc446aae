//! The small chat at `/`.

use gateway::PageConfig;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::gateway::Gateway;

async fn get(gateway: &Gateway, path: &str) -> String {
    let mut stream = TcpStream::connect(gateway.addr).await.unwrap();
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_loads_what_is_here_and_calls_what_is_configured() {
    let gateway = Gateway::start_with(|config| {
        config.gateway.page = Some(PageConfig {
            ingest_url: "https://chat.example.org/in/".to_owned(),
            query_url: "https://query.example.org".to_owned(),
        });
    })
    .await;
    let page = get(&gateway, "/").await;
    assert!(page.starts_with("HTTP/1.0 200"), "{page}");
    let connect = "connect-src 'self' https://chat.example.org https://query.example.org;";
    for part in [
        connect,
        "script-src 'self';",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    for file in page.split('"').filter(|part| part.starts_with("/page/")) {
        let loaded = get(&gateway, file).await;
        assert!(loaded.starts_with("HTTP/1.0 200"), "{file}: {loaded}");
    }
    let settings = get(&gateway, "/page/settings.json").await;
    assert!(
        settings.contains(r#""ingest":"https://chat.example.org/in""#)
            && settings.contains(r#""authenticates":false"#),
        "{settings}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_settings_there_is_no_page() {
    let gateway = Gateway::start().await;
    let page = get(&gateway, "/").await;
    assert!(page.starts_with("HTTP/1.0 404"), "{page}");
}
