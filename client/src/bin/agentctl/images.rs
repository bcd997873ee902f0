//! Images that go along with a prompt: their bytes, since the daemon reads no paths of a client.
//!
//! Receives files; hands parts of content to `session/submit`.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use agentd_client::protocol::item::Part;
use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::failure::Misuse;

/// Bytes of all images together: base64 makes a third more of them, and a message holds 16 MiB.
const MAX_BYTES: u64 = 10 * 1024 * 1024;

/// What models can look at.
const TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Reads images; what they are is told by their bytes, not by their names.
pub(crate) fn read(files: &[PathBuf]) -> Result<Vec<Part>> {
    let mut left = MAX_BYTES;
    let mut parts = Vec::new();
    for path in files {
        let shown = path.display();
        let cannot = || format!("cannot read the image {shown}");
        let mut bytes = Vec::new();
        let file = File::open(path).with_context(cannot)?;
        file.take(left + 1).read_to_end(&mut bytes).with_context(cannot)?;
        left = left.checked_sub(bytes.len() as u64).ok_or_else(|| {
            let limit = MAX_BYTES / 1024 / 1024;
            Misuse(format!("{shown} is too large: images may have {limit} MiB together"))
        })?;
        let found = infer::get(&bytes).map(|kind| kind.mime_type());
        let mime_type = found.filter(|kind| TYPES.contains(kind)).ok_or_else(|| {
            Misuse(format!("{shown} is no image that models can read: PNG, JPEG, GIF or WebP"))
        })?;
        parts.push(Part::Image {
            mime_type: mime_type.to_owned(),
            data: Some(STANDARD.encode(&bytes)),
            path: Some(shown.to_string()),
        });
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let png = path("a.jpg", b"\x89PNG\r\n\x1a\n....");
        let parts = read(&[png]).unwrap();
        assert!(matches!(&parts[0], Part::Image { mime_type, .. } if mime_type == "image/png"));
        let text = path("a.png", b"just text");
        assert!(read(&[text]).unwrap_err().is::<Misuse>());
        let large = path("b.png", &vec![0; usize::try_from(MAX_BYTES).unwrap() + 1]);
        assert!(read(&[large]).unwrap_err().to_string().contains("too large"));
        assert!(read(&[dir.path().join("none")]).unwrap_err().to_string().contains("none"));
    }
}
