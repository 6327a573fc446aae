//! Each service as a process of its own.

use service_runtime::{ConfigSource, run_service};

use super::VERSION;

pub(super) async fn ingest(source: ConfigSource) -> anyhow::Result<()> {
    run_service("ingest", VERSION, source, async |process| {
        let config = process.configure(ingest::Config::load)?;
        let listen = config.ingest.listen;
        let api = ingest::start(config, process.supervisor(), process.health()).await?;
        process.listen("ingest.listen", listen, api).await?;
        Ok(())
    })
    .await
}

pub(super) async fn sequencer(source: ConfigSource) -> anyhow::Result<()> {
    run_service("sequencer", VERSION, source, async |process| {
        let config = process.configure(sequencer::Config::load)?;
        let listen = config.sequencer.listen;
        let api = sequencer::start(config, process.supervisor(), process.health()).await?;
        process.listen("sequencer.listen", listen, api).await?;
        Ok(())
    })
    .await
}

pub(super) async fn projector_unread(source: ConfigSource) -> anyhow::Result<()> {
    run_service("projector-unread", VERSION, source, async |process| {
        let config = process.configure(projector_unread::Config::load)?;
        let listen = config.projector_unread.listen;
        let api = projector_unread::start(config, process.supervisor(), process.health()).await?;
        process
            .listen("projector_unread.listen", listen, api)
            .await?;
        Ok(())
    })
    .await
}

pub(super) async fn projector_mysql(source: ConfigSource) -> anyhow::Result<()> {
    run_service("projector-mysql", VERSION, source, async |process| {
        let config = process.configure(projector_mysql::Config::load)?;
        let listen = config.projector_mysql.listen;
        let api = projector_mysql::start(config, process.supervisor(), process.health()).await?;
        process
            .listen("projector_mysql.listen", listen, api)
            .await?;
        Ok(())
    })
    .await
}

pub(super) async fn query_api(source: ConfigSource) -> anyhow::Result<()> {
    run_service("query-api", VERSION, source, async |process| {
        let config = process.configure(query_api::Config::load)?;
        let listen = config.query_api.listen;
        let api = query_api::start(config, process.supervisor(), process.health()).await?;
        process.listen("query_api.listen", listen, api).await?;
        Ok(())
    })
    .await
}
