//! A connection that only receives.

use anyhow::{Result, bail, ensure};

use super::SUCCESS;
use crate::peer::wkproto::{Connection, FromServer, ToServer};

/// A connected user who answers nobody.
pub struct Receiver(Connection);

impl Receiver {
    pub(super) async fn connect(port: u16, uid: &str) -> Result<Self> {
        let mut connection = Connection::open(port).await?;
        let connect = ToServer::Connect {
            uid,
            device: "bench",
            flag: 0,
        };
        connection.write(&connect).await?;
        let answer = connection.next().await?;
        let is_connected = answer == FromServer::ConnAck { reason: SUCCESS };
        ensure!(is_connected, "{uid} is not connected: {answer:?}");
        Ok(Self(connection))
    }

    /// Acknowledges the next message. Returns its `client_msg_no`.
    ///
    /// # Errors
    /// If the connection has ended.
    pub async fn next(&mut self) -> Result<String> {
        loop {
            match self.0.next().await? {
                FromServer::Recv(message) => {
                    let (id, seq) = (message.id, message.seq);
                    self.0.write(&ToServer::RecvAck { id, seq }).await?;
                    return Ok(message.client_msg_no);
                }
                FromServer::Disconnect => bail!("the server ended a connection"),
                _ => {}
            }
        }
    }
}
