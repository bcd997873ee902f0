//! The queue against a socket that takes what the test lets it take.

use tokio::io::{AsyncReadExt, DuplexStream, duplex};
use tokio::task::JoinHandle;

use super::*;

struct Socket {
    outbound: Outbound,
    other: DuplexStream,
    finish: CancellationToken,
    writer: JoinHandle<()>,
}

/// A queue before a socket whose buffer takes `room` bytes. The writer runs when the test waits.
fn socket(room: usize) -> Socket {
    let (ours, other) = duplex(room);
    let framing = Arc::new(OnceLock::new());
    let finish = CancellationToken::new();
    let (outbound, writer) = Outbound::new(ours, framing, finish.clone());
    Socket { outbound, other, finish, writer: tokio::spawn(writer) }
}

fn message(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

async fn all(mut socket: Socket) -> String {
    let mut text = String::new();
    socket.other.read_to_string(&mut text).await.unwrap();
    socket.writer.await.unwrap();
    text
}

#[tokio::test]
async fn answers_go_before_what_waits() {
    let socket = socket(1024);
    socket.outbound.send(Lane::InOrder, message("1")).await.unwrap();
    socket.outbound.send(Lane::InOrder, message("2")).await.unwrap();
    socket.outbound.send(Lane::First, message("answer")).await.unwrap();
    socket.outbound.send(Lane::InOrder, message("3")).await.unwrap();
    socket.finish.cancel();
    assert_eq!(all(socket).await, "answer\n1\n2\n3\n");
}

#[tokio::test]
async fn what_is_queued_is_written_before_an_orderly_end() {
    let socket = socket(1);
    for n in 0..100 {
        socket.outbound.send(Lane::InOrder, message(&n.to_string())).await.unwrap();
    }
    socket.finish.cancel();
    let expected: String = (0..100).flat_map(|n| [n.to_string(), "\n".to_owned()]).collect();
    assert_eq!(all(socket).await, expected);
}

#[tokio::test]
async fn messages_and_bytes_are_bounded() {
    let of_messages = socket(1);
    let count = std::iter::repeat_with(|| of_messages.outbound.try_send(Lane::First, message("x")))
        .take_while(Result::is_ok)
        .count();
    assert_eq!(count, QUEUE_MESSAGES);
    let of_bytes = socket(1);
    let large = Bytes::from(vec![b'x'; QUEUE_BYTES / 4]);
    let count = std::iter::repeat_with(|| of_bytes.outbound.try_send(Lane::InOrder, large.clone()))
        .take_while(Result::is_ok)
        .count();
    assert_eq!(count, 4);
}

#[tokio::test]
async fn a_message_larger_than_the_queue_gets_through_alone() {
    let mut socket = socket(64 * 1024);
    let large = Bytes::from(vec![b'x'; QUEUE_BYTES * 2]);
    socket.outbound.send(Lane::First, large.clone()).await.unwrap();
    assert!(socket.outbound.try_send(Lane::First, message("y")).is_err());
    let mut received = vec![0; large.len() + 1];
    socket.other.read_exact(&mut received).await.unwrap();
    socket.outbound.send(Lane::First, message("y")).await.unwrap();
}

#[tokio::test]
async fn who_waits_for_a_lost_connection_is_told() {
    let socket = socket(1);
    while socket.outbound.try_send(Lane::First, message("x")).is_ok() {}
    let outbound = socket.outbound.clone();
    let waiting = tokio::spawn(async move { outbound.send(Lane::First, message("x")).await });
    drop(socket.other);
    assert_eq!(waiting.await.unwrap(), Err(Closed));
    socket.outbound.closed().await;
    assert_eq!(socket.outbound.send(Lane::First, message("x")).await, Err(Closed));
}

#[tokio::test]
async fn what_is_ready_goes_into_one_write() {
    #[derive(Default)]
    struct Writes(Vec<usize>);
    impl AsyncWrite for Writes {
        fn poll_write(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            bytes: &[u8],
        ) -> std::task::Poll<std::io::Result<usize>> {
            self.0.push(bytes.len());
            std::task::Poll::Ready(Ok(bytes.len()))
        }
        fn poll_flush(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::task::Poll::Ready(Ok(()))
        }
        fn poll_shutdown(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::task::Poll::Ready(Ok(()))
        }
    }
    let mut writes = Writes::default();
    let finish = CancellationToken::new();
    let (outbound, writer) = Outbound::new(&mut writes, Arc::new(OnceLock::new()), finish.clone());
    for _ in 0..1_000 {
        outbound.try_send(Lane::InOrder, Bytes::from(vec![b'x'; 99])).unwrap();
    }
    finish.cancel();
    writer.await;
    assert_eq!(writes.0.len(), 3, "{:?}", writes.0);
    assert_eq!(writes.0.iter().sum::<usize>(), 100_000);
}
