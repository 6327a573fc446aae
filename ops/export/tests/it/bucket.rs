//! A bucket of an S3 server in this process, whose objects are files of a folder.

use std::net::Ipv4Addr;

use export::Lake;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto::Builder,
};
use s3s::{auth::SimpleAuth, service::S3ServiceBuilder};
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::net::TcpListener;

const NAME: &str = "bucket";
const KEY: &str = "key";
const SECRET: &str = "a-secret-of-the-test";

pub struct Bucket {
    folder: TempDir,
    endpoint: String,
}

impl Bucket {
    pub async fn start() -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::create_dir(folder.path().join(NAME)).unwrap();
        let mut service = S3ServiceBuilder::new(FileSystem::new(folder.path()).unwrap());
        service.set_auth(SimpleAuth::from_single(KEY, SECRET));
        let service = service.build();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let service = service.clone();
                tokio::spawn(async move {
                    let server = Builder::new(TokioExecutor::new());
                    // The client closes its connections when it likes.
                    let _ = server.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        Self { folder, endpoint }
    }

    /// The lake with this secret.
    pub fn lake(&self, secret: &str) -> Lake {
        let environment = [
            ("AWS_ACCESS_KEY_ID", KEY),
            ("AWS_SECRET_ACCESS_KEY", secret),
            ("AWS_REGION", "eu-central-1"),
            ("AWS_ENDPOINT", &self.endpoint),
            ("AWS_ALLOW_HTTP", "true"),
            ("HOME", "/"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Lake::open(&format!("s3://{NAME}/lake"), environment, false).unwrap()
    }

    pub fn right_lake(&self) -> Lake {
        self.lake(SECRET)
    }

    /// Copies the objects into a folder as a lake of its own.
    pub fn copied(&self) -> TempDir {
        let copy = TempDir::new().unwrap();
        let mut folders = vec![self.folder.path().join(NAME).join("lake")];
        let root = folders[0].clone();
        while let Some(folder) = folders.pop() {
            for found in std::fs::read_dir(folder).unwrap() {
                let path = found.unwrap().path();
                let to = copy.path().join(path.strip_prefix(&root).unwrap());
                if path.is_dir() {
                    std::fs::create_dir_all(&to).unwrap();
                    folders.push(path);
                } else {
                    std::fs::copy(&path, &to).unwrap();
                }
            }
        }
        copy
    }
}
