//! Model servers on this machine, at the ports that they usually have.
//!
//! Receives nothing; hands back who answers, with the lines that make it usable.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use http_body_util::{BodyExt, Empty, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// The ports, with what usually answers there and the name that its table gets.
const USUAL: [(u16, &str, &str); 4] = [
    (11434, "Ollama", "ollama"),
    (8080, "llama.cpp", "llama"),
    (1234, "LM Studio", "lmstudio"),
    (8000, "vLLM", "vllm"),
];
/// How long one may take: it is on this machine.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of a list of models.
const MAX_BYTES: usize = 1 << 20;

/// A server that answered.
#[derive(Debug)]
pub(super) struct Found {
    port: u16,
    what: &'static str,
    name: &'static str,
    models: Vec<String>,
}

/// A list of models, as every server of this kind writes it.
#[derive(Deserialize)]
struct Listed {
    data: Vec<ListedModel>,
}

#[derive(Deserialize)]
struct ListedModel {
    id: String,
}

/// Looks at all the usual ports at once.
pub(super) async fn look() -> Vec<Found> {
    let looks = USUAL.map(|(port, what, name)| async move {
        let asked = models(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let models = tokio::time::timeout(PATIENCE, asked).await.ok()??;
        Some(Found { port, what, name, models })
    });
    futures_util::future::join_all(looks).await.into_iter().flatten().collect()
}

/// The models of a server; nothing where none answers, or something else does.
async fn models(address: SocketAddr) -> Option<Vec<String>> {
    let stream = TcpStream::connect(address).await.ok()?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    let request = Request::get("/v1/models")
        .header("host", address.to_string())
        .header("accept", "application/json")
        .body(Empty::<Bytes>::new())
        .ok()?;
    let exchange = async {
        let answer = sender.send_request(request).await.ok()?;
        let body = Limited::new(answer.into_body(), MAX_BYTES).collect().await.ok()?.to_bytes();
        let listed: Listed = serde_json::from_slice(&body).ok()?;
        Some(listed.data.into_iter().map(|model| model.id).collect())
    };
    tokio::select! {
        models = exchange => models,
        _ = connection => None,
    }
}

impl Found {
    pub(super) fn what(&self) -> &'static str {
        self.what
    }

    pub(super) fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// Whether one of these addresses leads to it.
    pub(super) fn is_among(&self, addresses: &[String]) -> bool {
        let ours = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{}", self.port));
        addresses.iter().any(|address| ours.iter().any(|ours| address.contains(ours)))
    }

    /// The lines of the configuration that make it usable.
    pub(super) fn lines(&self) -> String {
        let model = self.models.first().map_or("MODEL", String::as_str);
        let model = json!(format!("{}/{model}", self.name));
        let (name, base_url) = (self.name, self.base_url());
        format!(
            "model = {model}\nproviders.{name} = {{ wire = \"openai-chat\", base_url = \
             \"{base_url}\" }}"
        )
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "what": self.what, "base_url": self.base_url(), "models": self.models,
            "config": self.lines()
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    async fn answering(body: &'static str) -> Option<Vec<String>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 1024];
            assert!(stream.read(&mut asked).await.unwrap() > 0);
            assert!(asked.starts_with(b"GET /v1/models HTTP/1.1\r\n"));
            let length = body.len();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream
        };
        tokio::join!(models(address), server).0
    }

    #[tokio::test]
    async fn a_model_server_is_told_from_others() {
        let list = r#"{"object": "list", "data": [{"id": "qwen3:8b", "x": 1}]}"#;
        assert_eq!(answering(list).await, Some(vec!["qwen3:8b".to_owned()]));
        assert_eq!(answering("<html>").await, None);
    }

    #[test]
    fn the_lines_configure_it() {
        let (port, what, name) = USUAL[0];
        let models = vec!["qwen3:8b".to_owned()];
        let found = Found { port, what, name, models };
        assert_eq!(
            found.lines(),
            "model = \"ollama/qwen3:8b\"\nproviders.ollama = { wire = \"openai-chat\", base_url = \
             \"http://127.0.0.1:11434/v1\" }"
        );
        assert!(found.is_among(&["http://localhost:11434/v1".to_owned()]));
        assert!(!found.is_among(&["http://127.0.0.1:8080/v1".to_owned()]));
    }
}
