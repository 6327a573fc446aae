//! Each service as a process of its own.

use service_runtime::{ConfigSource, run_service};

use super::VERSION;

pub(super) async fn ingest(source: ConfigSource) -> anyhow::Result<()> {
    run_service("ingest", VERSION, source, async |process| {
        let config = process.configure(ingest::Config::load)?;
        let bind = config.ingest.bind;
        let api = ingest::start(config, process.supervisor(), process.health()).await?;
        process.listen("ingest.bind", bind, api).await?;
        Ok(())
    })
    .await
}

pub(super) async fn sequencer(source: ConfigSource) -> anyhow::Result<()> {
    run_service("sequencer", VERSION, source, async |process| {
        let config = process.configure(sequencer::Config::load)?;
        let bind = config.sequencer.bind;
        let api = sequencer::start(config, process.supervisor(), process.health()).await?;
        process.listen("sequencer.bind", bind, api).await?;
        Ok(())
    })
    .await
}

pub(super) async fn projector_unread(source: ConfigSource) -> anyhow::Result<()> {
    run_service("projector-unread", VERSION, source, async |process| {
        let config = process.configure(projector_unread::Config::load)?;
        let bind = config.projector_unread.bind;
        let api = projector_unread::start(config, process.supervisor(), process.health()).await?;
        process.listen("projector_unread.bind", bind, api).await?;
        Ok(())
    })
    .await
}

pub(super) async fn projector_mysql(source: ConfigSource) -> anyhow::Result<()> {
    run_service("projector-mysql", VERSION, source, async |process| {
        let config = process.configure(projector_mysql::Config::load)?;
        let bind = config.projector_mysql.bind;
        let api = projector_mysql::start(config, process.supervisor(), process.health()).await?;
        process.listen("projector_mysql.bind", bind, api).await?;
        Ok(())
    })
    .await
}

pub(super) async fn query_api(source: ConfigSource) -> anyhow::Result<()> {
    run_service("query-api", VERSION, source, async |process| {
        let config = process.configure(query_api::Config::load)?;
        let bind = config.query_api.bind;
        let api = query_api::start(config, process.supervisor(), process.health()).await?;
        process.listen("query_api.bind", bind, api).await?;
        Ok(())
    })
    .await
}
