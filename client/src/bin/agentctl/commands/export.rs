//! `export` and `import`: a session as one document, and back.
//!
//! Receives a session or a document; hands back the other.

use std::path::Path;

use agentd_client::protocol::method::{
    SessionExport, SessionExportFile, SessionImport, SessionImportFile,
};
use agentd_client::protocol::session::{
    ExportFileParams, ExportFormat, ExportParams, ImportFileParams, ImportParams,
};
use anyhow::{Context as _, Result};

use crate::args::{Export, Import};
use crate::context::{Context, absolute, directory};
use crate::render;
use crate::target;

pub(super) async fn export(context: &Context, args: Export) -> Result<()> {
    let client = context.client().await?;
    let session = target::session(&client, args.session.as_deref()).await?;
    let format = if args.markdown { ExportFormat::Markdown } else { ExportFormat::Json };
    let session_id = session.session_id;
    let Some(file) = &args.output else {
        let params = ExportParams { session_id, format };
        let content = client.call::<SessionExport>(params).await?.content;
        return render::line(content.trim_end());
    };
    let path = absolute(file)?;
    client.call::<SessionExportFile>(ExportFileParams { session_id, format, path }).await?;
    eprintln!("exported to {}", file.display());
    Ok(())
}

pub(super) async fn import(context: &Context, args: Import) -> Result<()> {
    let client = context.client().await?;
    let cwd = args.cd.as_deref().map(|cd| directory(Some(cd))).transpose()?;
    let session = if let Some(content) = streamed(&args.file)? {
        client.call::<SessionImport>(ImportParams { content, cwd, key: None }).await?
    } else {
        let path = absolute(&args.file)?;
        client.call::<SessionImportFile>(ImportFileParams { path, cwd, key: None }).await?
    };
    if context.json { render::json(&session) } else { render::line(session.session_id.as_str()) }
}

/// What the daemon cannot read itself: standard input, or a pipe of the shell's.
fn streamed(file: &Path) -> Result<Option<String>> {
    let failed = || format!("cannot read {}", file.display());
    if file == Path::new("-") {
        let read = std::io::read_to_string(std::io::stdin().lock());
        return read.map(Some).context("cannot read standard input");
    }
    if std::fs::metadata(file).with_context(failed)?.is_file() {
        return Ok(None);
    }
    std::fs::read_to_string(file).map(Some).with_context(failed)
}
