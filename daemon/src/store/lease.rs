//! Leases: who runs a session, and the epoch that fences everybody else out.
//!
//! A row per session. It is taken, renewed and given back in one statement each; every change of
//! hands raises the epoch, and the row outlives the lease so that the epoch never falls. A write
//! names owner and epoch and nothing else: whether the lease expired does not matter as long as
//! nobody took it, so no jump of a clock can lose a write. Deadlines are in boot time, which a
//! restart voids: a row of another boot is free.
//!
//! A live lease can be free all the same: when its process is gone, which is known where host and
//! pid namespace are ours, and of everybody where the state directory is ours alone.
//!
//! Receives transactions from `append.rs` and the writer; hands back the epoch or the holder.

use std::time::Duration;

use agentd_protocol::session::Lease;
use rusqlite::{Connection, OptionalExtension, named_params};

use super::error::Error;

/// A process that can hold leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The daemon's id, new with each start.
    pub owner: String,
    /// Its process.
    pub pid: u32,
    /// When the process started, in the system's ticks since boot; 0 where it is not known.
    pub process_started: u64,
    /// Its machine.
    pub host: String,
    /// The namespace that `pid` is counted in; empty where there are none.
    pub pid_namespace: String,
    /// This run of the machine; empty where the system does not name it.
    pub boot_id: String,
}

impl Holder {
    /// This process under the name `owner`.
    pub fn this_process(owner: impl Into<String>) -> Self {
        let pid = std::process::id();
        Self {
            owner: owner.into(),
            pid,
            process_started: process::started(pid).unwrap_or(0),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            pid_namespace: process::namespace(),
            boot_id: process::boot_id(),
        }
    }

    /// Whether the holder of this row is dead, as far as boot and process tell.
    fn knows_gone(&self, row: &Row) -> bool {
        if row.boot_id != self.boot_id {
            return true;
        }
        row.host == self.host
            && row.pid_namespace == self.pid_namespace
            && process::is_gone(row.pid, row.process_started)
    }
}

/// When something happens to a lease, and to whom.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    /// Who asks.
    pub holder: &'a Holder,
    /// Nobody else has the state directory open, so that no other holder can be alive.
    pub alone: bool,
    /// Now, in boot time.
    pub now_ms: u64,
    /// How long a lease lives.
    pub ttl: Duration,
}

impl Terms<'_> {
    /// Whether the holder of this row is certainly dead.
    fn knows_gone(&self, row: &Row) -> bool {
        (self.alone && row.owner != self.holder.owner) || self.holder.knows_gone(row)
    }

    fn expires_at(&self) -> u64 {
        self.now_ms.saturating_add(ttl_ms(self.ttl))
    }

    /// The lease as it stands right after it was taken or renewed.
    pub(super) fn fresh(&self, epoch: u64) -> Lease {
        Lease {
            owner: self.holder.owner.clone(),
            pid: self.holder.pid,
            host: self.holder.host.clone(),
            epoch,
            expires_in_ms: ttl_ms(self.ttl),
        }
    }
}

fn ttl_ms(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

struct Row {
    owner: String,
    pid: u32,
    process_started: u64,
    host: String,
    pid_namespace: String,
    boot_id: String,
    epoch: u64,
    expires_at: u64,
}

impl Row {
    fn lease(self, now_ms: u64) -> Lease {
        Lease {
            owner: self.owner,
            pid: self.pid,
            host: self.host,
            epoch: self.epoch,
            expires_in_ms: self.expires_at.saturating_sub(now_ms),
        }
    }
}

fn row(conn: &Connection, session: i64) -> Result<Option<Row>, Error> {
    let row = conn
        .prepare_cached(
            "SELECT owner, pid, process_started, host, pid_namespace, boot_id, epoch, expires_at
             FROM leases WHERE session = ?1 AND owner IS NOT NULL",
        )?
        .query_row([session], |row| {
            Ok(Row {
                owner: row.get(0)?,
                pid: row.get(1)?,
                process_started: row.get(2)?,
                host: row.get(3)?,
                pid_namespace: row.get(4)?,
                boot_id: row.get(5)?,
                epoch: row.get(6)?,
                expires_at: row.get(7)?,
            })
        })
        .optional()?;
    Ok(row)
}

/// The lease in force, if any is: not expired, and not of a process that is gone.
pub(super) fn in_force(
    conn: &Connection,
    session: i64,
    terms: Terms<'_>,
) -> Result<Option<Lease>, Error> {
    let row = row(conn, session)?;
    Ok(row
        .filter(|row| row.expires_at > terms.now_ms && !terms.knows_gone(row))
        .map(|row| row.lease(terms.now_ms)))
}

/// Whether another process has the lease, expired or not, and still lives as far as is known.
pub(super) fn rival_lives(
    conn: &Connection,
    session: i64,
    terms: Terms<'_>,
) -> Result<bool, Error> {
    let row = row(conn, session)?;
    Ok(row.is_some_and(|row| row.owner != terms.holder.owner && !terms.knows_gone(&row)))
}

/// The epoch of whoever had the lease last; 0 if nobody ever had it.
pub(super) fn epoch(conn: &Connection, session: i64) -> Result<u64, Error> {
    let epoch = conn
        .prepare_cached("SELECT epoch FROM leases WHERE session = ?1")?
        .query_row([session], |row| row.get(0))
        .optional()?;
    Ok(epoch.unwrap_or(0))
}

/// Our own epoch, if the row is ours; also when it expired, as long as nobody took it.
pub(super) fn own_epoch(
    conn: &Connection,
    session: i64,
    holder: &Holder,
) -> Result<Option<u64>, Error> {
    Ok(row(conn, session)?.filter(|row| row.owner == holder.owner).map(|row| row.epoch))
}

/// Takes the lease if it is free, ours, or `by_force`; the new epoch.
pub(super) fn take(
    conn: &Connection,
    session: i64,
    terms: Terms<'_>,
    by_force: bool,
) -> Result<u64, Error> {
    // The write lock is held, so what is seen here is still true in the statement below.
    let gone = row(conn, session)?.is_some_and(|row| terms.knows_gone(&row));
    let holder = terms.holder;
    let epoch = conn
        .prepare_cached(
            "INSERT INTO leases (session, owner, pid, process_started, host, pid_namespace,
                                 boot_id, epoch, expires_at)
             VALUES (:session, :owner, :pid, :started, :host, :namespace, :boot, 1, :expires)
             ON CONFLICT (session) DO UPDATE SET
                 owner = excluded.owner, pid = excluded.pid,
                 process_started = excluded.process_started, host = excluded.host,
                 pid_namespace = excluded.pid_namespace, boot_id = excluded.boot_id,
                 epoch = leases.epoch + 1, expires_at = excluded.expires_at
             WHERE leases.owner IS NULL OR leases.owner = excluded.owner
                 OR leases.expires_at <= :now OR :free
             RETURNING epoch",
        )?
        .query_row(
            named_params! {
                ":session": session, ":owner": holder.owner, ":pid": holder.pid,
                ":started": holder.process_started, ":host": holder.host,
                ":namespace": holder.pid_namespace, ":boot": holder.boot_id,
                ":expires": terms.expires_at(), ":now": terms.now_ms, ":free": gone || by_force,
            },
            |row| row.get(0),
        )
        .optional()?;
    match epoch {
        Some(epoch) => Ok(epoch),
        None => match row(conn, session)? {
            Some(row) => Err(Error::LeaseHeld(row.lease(terms.now_ms))),
            None => Err(Error::LeaseLost),
        },
    }
}

/// [`Error::LeaseLost`] unless this owner and epoch are in force.
pub(super) fn fence(
    conn: &Connection,
    session: i64,
    holder: &Holder,
    epoch: u64,
) -> Result<(), Error> {
    let ours = conn
        .prepare_cached("SELECT 1 FROM leases WHERE session = ?1 AND owner = ?2 AND epoch = ?3")?
        .exists((session, &holder.owner, epoch))?;
    if ours { Ok(()) } else { Err(Error::LeaseLost) }
}

/// Gives it a new life, late as it may be; [`Error::LeaseLost`] if somebody took it.
pub(super) fn renew(
    conn: &Connection,
    session: i64,
    terms: Terms<'_>,
    epoch: u64,
) -> Result<(), Error> {
    let renewed = conn
        .prepare_cached(
            "UPDATE leases SET expires_at = ?4 WHERE session = ?1 AND owner = ?2 AND epoch = ?3",
        )?
        .execute((session, &terms.holder.owner, epoch, terms.expires_at()))?;
    if renewed == 1 { Ok(()) } else { Err(Error::LeaseLost) }
}

/// Gives it back; nothing happens if it is no longer ours.
pub(super) fn release(
    conn: &Connection,
    session: i64,
    holder: &Holder,
    epoch: u64,
) -> Result<(), Error> {
    conn.prepare_cached(
        "UPDATE leases SET owner = NULL, expires_at = 0
         WHERE session = ?1 AND owner = ?2 AND epoch = ?3",
    )?
    .execute((session, &holder.owner, epoch))?;
    Ok(())
}

/// What the system says about processes.
#[cfg(target_os = "linux")]
mod process {
    use std::fs;

    /// When it started, in ticks since boot; `None` if there is no such process, or only its
    /// zombie.
    pub(super) fn started(pid: u32) -> Option<u64> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may hold anything, parentheses too: what follows the last one is fixed.
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        if matches!(fields.next()?, "Z" | "X") {
            return None;
        }
        fields.nth(18)?.parse().ok()
    }

    pub(super) fn is_gone(pid: u32, process_started: u64) -> bool {
        match started(pid) {
            Some(now) => process_started != 0 && now != process_started,
            // Without /proc nothing is known.
            None => fs::exists("/proc/self/stat").unwrap_or(false),
        }
    }

    pub(super) fn namespace() -> String {
        fs::read_link("/proc/self/ns/pid")
            .map(|link| link.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    pub(super) fn boot_id() -> String {
        fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|id| id.trim().to_owned())
            .unwrap_or_default()
    }
}

/// What the system says about processes.
#[cfg(not(target_os = "linux"))]
mod process {
    pub(super) fn started(_pid: u32) -> Option<u64> {
        None
    }

    pub(super) fn is_gone(pid: u32, _process_started: u64) -> bool {
        i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).is_some_and(|pid| {
            rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
        })
    }

    pub(super) fn namespace() -> String {
        String::new()
    }

    pub(super) fn boot_id() -> String {
        String::new()
    }
}
