//! `export` and `import`: a session as one document, and back.
//!
//! Receives a session or a document; hands back the other.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use agentd_client::protocol::method::{SessionExport, SessionImport};
use agentd_client::protocol::session::{ExportFormat, ExportParams, ImportParams};
use anyhow::{Context as _, Result};

use crate::args::{Export, Import};
use crate::context::{Context, directory};
use crate::render;
use crate::target;

pub(super) async fn export(context: &Context, args: Export) -> Result<()> {
    let client = context.client().await?;
    let session = target::session(&client, args.session.as_deref()).await?;
    let format = if args.markdown { ExportFormat::Markdown } else { ExportFormat::Json };
    let params = ExportParams { session_id: session.session_id, format };
    let content = client.call::<SessionExport>(params).await?.content;
    let Some(file) = &args.output else { return render::line(content.trim_end()) };
    // What was said to a model is for its user alone, and a document that is there may be the only
    // one of its session.
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    made.and_then(|mut made| made.write_all(content.as_bytes()))
        .with_context(|| format!("cannot write {}", file.display()))?;
    eprintln!("exported to {}", file.display());
    Ok(())
}

pub(super) async fn import(context: &Context, args: Import) -> Result<()> {
    let content = read(&args.file)?;
    let client = context.client().await?;
    let cwd = args.cd.as_deref().map(|cd| directory(Some(cd))).transpose()?;
    let params = ImportParams { content, cwd, key: None };
    let session = client.call::<SessionImport>(params).await?;
    if context.json { render::json(&session) } else { render::line(session.session_id.as_str()) }
}

fn read(file: &Path) -> Result<String> {
    if file != Path::new("-") {
        return std::fs::read_to_string(file)
            .with_context(|| format!("cannot read {}", file.display()));
    }
    let mut content = String::new();
    std::io::stdin().lock().read_to_string(&mut content).context("cannot read standard input")?;
    Ok(content)
}
