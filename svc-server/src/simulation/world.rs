//! What is true of a simulated deployment, and what must be.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use svc_core::{Next, Outcome, PropostaId, Schedule, Status};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;

use crate::seams::Clock;
use crate::simulation::seed::Draw;
use crate::store::memory::Memory;

mod counts;
mod invariants;
pub(super) use counts::Counts;

/// One life of a server: a restart is another.
pub(super) type ServerId = usize;

/// How often something goes wrong, in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) away: u64,
    pub(super) torn: u64,
    pub(super) late: u64,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) draw: Draw,
    pub(super) schedule: Schedule,
    start: Instant,
    state: Mutex<State>,
    /// The store that lasts.
    memory: Memory,
    customers: (UnboundedSender<String>, Mutex<UnboundedReceiver<String>>),
}

#[derive(Debug, Default)]
struct State {
    trace: Vec<String>,
    violation: Option<String>,
    faults: Faults,
    /// Whether the way to the store takes no time in all of this story.
    exact: bool,
    well: bool,
    servers: Vec<Life>,
    seen: HashMap<PropostaId, Seen>,
    /// Retries whose wait was exactly the schedule's, and all that were looked at.
    unspread: (u32, u32),
    counts: Counts,
}

/// One life of a server.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    dead: bool,
    paused_until: Duration,
    /// Its time of day, beside the world's, in milliseconds.
    skew: i64,
    /// When it was last stopped or its clock was set: what it had measured before is off since then.
    disturbed: Option<Duration>,
}

/// What was seen of a proposal.
#[derive(Debug, Default)]
struct Seen {
    status: Option<Status>,
    body: Option<Vec<u8>>,
    results: Vec<Outcome>,
    ended: bool,
    /// How often it was asked for again, and how often it was due again after its end.
    resends: (u32, u32),
    due: Option<Duration>,
    calls: Vec<Call>,
    /// A receiver has said 2xx, or 410.
    taken: bool,
    refused: bool,
}

/// One call on a receiver.
#[derive(Clone, Copy, Debug)]
struct Call {
    server: ServerId,
    began: Duration,
    ended: bool,
}

/// A lease of the store that is waited for by another server.
const LEASE: Duration = Duration::from_secs(30);
/// Longest time on the way to the store or back.
pub(super) const LATE: u64 = 900;
/// Between an attempt's end and its record: at most two ways, or a few where the record is delayed at the server.
const LAG: Duration = Duration::from_secs(4);

impl World {
    pub(super) fn new(seed: u64, schedule: Schedule) -> Arc<Self> {
        let start = Instant::now();
        let monotonic = move || start.elapsed();
        let wall = move || epoch() + TimeDelta::from_std(start.elapsed()).unwrap();
        let memory = Memory::new(1_000, Clock::simulated(wall, monotonic));
        let (sender, receiver) = unbounded_channel();
        let customers = (sender, Mutex::new(receiver));
        Arc::new(Self { draw: Draw::new(seed), schedule, start, state: Mutex::default(), memory, customers })
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// A new life of a server, whose clock may be off.
    pub(super) fn begin_life(&self, skew: i64) -> ServerId {
        let mut state = self.state();
        state.servers.push(Life { skew, ..Life::default() });
        state.servers.len() - 1
    }

    /// The clock of a server: its own time of day, and everybody's count.
    pub(super) fn clock_of(self: &Arc<Self>, server: ServerId) -> Clock {
        let (world, start) = (Arc::clone(self), self.start);
        let wall = move || {
            let skew = world.state().servers[server].skew;
            epoch() + TimeDelta::from_std(world.elapsed()).unwrap() + TimeDelta::milliseconds(skew)
        };
        Clock::simulated(wall, move || start.elapsed())
    }

    pub(super) fn memory_of(self: &Arc<Self>, server: ServerId) -> Memory {
        self.memory.shared_with(self.clock_of(server))
    }

    pub(super) fn kill(&self, server: ServerId) {
        self.state().servers[server].dead = true;
        self.count(|counts| counts.crashes += 1);
        self.tell(|| format!("server {server} is killed"));
    }

    pub(super) fn pause(&self, server: ServerId, time: Duration) {
        let until = self.elapsed() + time;
        let life = &mut self.state().servers[server];
        (life.paused_until, life.disturbed) = (until, Some(until));
    }

    pub(super) fn jump(&self, server: ServerId, millis: i64) {
        let now = self.elapsed();
        let life = &mut self.state().servers[server];
        life.skew += millis;
        life.disturbed = life.disturbed.max(Some(now));
    }

    /// Whatever was stopped runs on, and receivers take what they get.
    pub(super) fn heal(&self) {
        let now = self.elapsed();
        let state = &mut *self.state();
        (state.well, state.faults) = (true, Faults::default());
        state.servers.iter_mut().for_each(|life| life.paused_until = life.paused_until.min(now));
    }

    pub(super) fn are_well(&self) -> bool {
        self.state().well
    }

    /// Where customers' messages go.
    pub(super) fn customers(&self) -> UnboundedSender<String> {
        self.customers.0.clone()
    }

    pub(super) fn faults(&self) -> Faults {
        self.state().faults
    }

    /// The faults of a story from its beginning.
    pub(super) fn begin(&self, faults: Faults) {
        let mut state = self.state();
        (state.faults, state.exact) = (faults, faults.late == 0);
    }

    /// Whatever a server does takes its time, waits while it is stopped, and ends with it.
    pub(super) async fn on_the_way(&self, server: ServerId) {
        self.gate(server).await;
        if self.draw.per_mille(self.faults().late) {
            tokio::time::sleep(self.draw.millis(LATE)).await;
            self.gate(server).await;
        }
    }

    pub(super) async fn gate(&self, server: ServerId) {
        loop {
            let life = self.state().servers[server];
            if life.dead {
                return std::future::pending().await;
            }
            match life.paused_until.checked_sub(self.elapsed()) {
                Some(left) if !left.is_zero() => tokio::time::sleep(left).await,
                _ => return,
            }
        }
    }

    /// Somebody asks for a notification again.
    pub(super) fn resends(&self, id: PropostaId) {
        self.count(|counts| counts.resends += 1);
        self.state().seen.entry(id).or_default().resends.0 += 1;
    }

    /// A call begins at a receiver, with this body under this id.
    pub(super) fn called(&self, server: ServerId, event: &str, body: &[u8]) -> Option<PropostaId> {
        let now = self.elapsed();
        let id = event.strip_prefix("evt_").and_then(PropostaId::parse);
        let records = self.memory.records();
        let Some(record) = records.iter().find(|record| Some(record.proposta.id()) == id) else {
            self.violate(format!("event {event} is of no proposal"));
            return None;
        };
        let id = record.proposta.id();
        let delivery = record.delivery.as_ref();
        if delivery.is_none_or(|delivery| delivery.evento().body() != body) {
            self.violate(format!("event {event} went out with a body that is not the stored one"));
        }
        let (mut early, mut double) = (false, None);
        {
            let state = &mut *self.state();
            let lives = &state.servers;
            let seen = state.seen.entry(id).or_default();
            // A server that was stopped, or whose lease was taken over, comes late with what it was told before.
            let lost = record.leased_until.is_none() || lives[server].disturbed.is_some();
            early = seen.due.is_some_and(|due| now < due) && !lost || early;
            for other in seen.calls.iter().filter(|call| !call.ended && !lives[call.server].dead) {
                if now < other.began + LEASE - LAG && lives[other.server].disturbed.is_none() && !lost {
                    double = Some(other.server);
                }
            }
            state.counts.repeated += u64::from(!seen.calls.is_empty());
            state.counts.calls += 1;
            seen.calls.push(Call { server, began: now, ended: false });
        }
        if early {
            self.violate(format!("{event} went out before it was due"));
        }
        if let Some(other) = double {
            self.violate(format!("{event} is out twice, at servers {other} and {server}"));
        }
        self.tell(|| format!("server {server} calls with {event}"));
        Some(id)
    }

    /// The receiver has made up its mind: a status, or `None` for none.
    pub(super) fn answered(&self, server: ServerId, id: PropostaId, status: Option<u16>) {
        let mut state = self.state();
        let seen = state.seen.entry(id).or_default();
        seen.taken |= matches!(status, Some(200..=299));
        seen.refused |= status == Some(410);
        if let Some(call) = seen.calls.iter_mut().rev().find(|call| call.server == server && !call.ended) {
            call.ended = true;
        }
        drop(state);
        self.tell(|| format!("server {server} hears {status:?} of {id}"));
    }

    /// Whether anything is still to be done.
    pub(super) fn is_quiet(&self) -> bool {
        self.memory.records().iter().all(|record| {
            let told = !matches!(record.mensagem.next(), Next::At(_));
            let delivered = record.delivery.as_ref().is_none_or(|delivery| !matches!(delivery.next(), Next::At(_)));
            told && delivered
        })
    }

    /// The stored status of a proposal.
    pub(super) fn status(&self, id: PropostaId) -> Option<Status> {
        self.memory.find(id).map(|proposta| proposta.status())
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.state().counts);
    }

    pub(super) fn tell(&self, text: impl FnOnce() -> String) {
        let at = self.elapsed().as_secs_f64();
        let mut line = String::new();
        let _ = write!(line, "{at:9.3} {}", text());
        self.state().trace.push(line);
    }

    pub(super) fn violate(&self, why: String) {
        self.tell(|| format!("VIOLATION {why}"));
        self.state().violation.get_or_insert(why);
    }

    pub(super) fn is_violated(&self) -> bool {
        self.state().violation.is_some()
    }

    pub(super) fn told(&self) -> (Vec<String>, Option<String>, Counts) {
        let state = &mut *self.state();
        (std::mem::take(&mut state.trace), state.violation.clone(), state.counts)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

fn epoch() -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_811_504, 0).unwrap()
}
