//! Waiting for a state, with one deadline that fails loudly.
//!
//! Receives probes and futures; hands out what they came to, or panics with what was seen.

use std::future::Future;
use std::time::{Duration, Instant};

/// The longest any wait may take. Far more than anything needs: it only ends what would hang.
pub const DEADLINE: Duration = Duration::from_secs(30);
/// Between two looks at a state that cannot announce itself.
const INTERVAL: Duration = Duration::from_millis(5);

/// What `future` comes to.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(DEADLINE, future).await;
    waited.unwrap_or_else(|_| panic!("waited {DEADLINE:?} in vain for {what}"))
}

/// Looks until `probe` says `Ok`; its last `Err` is what was seen.
pub async fn until<T, E: std::fmt::Debug>(
    what: &str,
    mut probe: impl AsyncFnMut() -> Result<T, E>,
) -> T {
    let start = Instant::now();
    loop {
        match probe().await {
            Ok(value) => return value,
            Err(seen) if start.elapsed() > DEADLINE => {
                panic!("waited {DEADLINE:?} in vain for {what}; last seen: {seen:?}")
            }
            Err(_) => tokio::time::sleep(INTERVAL).await,
        }
    }
}
