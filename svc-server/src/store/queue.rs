//! Work in memory that waits for its time: by partner, by host, by time, so that neither a partner nor a host that has no
//! place left is walked through on the way to the others.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use svc_core::{Delivery, Mensagem, PropostaId};

use crate::bounds::Room;
use crate::outbox::{Lease, Leased};

/// What a queue needs to know of its work. A proposal has one event and one message, so its id is the task's.
pub(super) trait Task: Clone {
    fn id(&self) -> PropostaId;
    fn client_id(&self) -> &str;
    /// Who is called on, for the bound on a host.
    fn host(&self) -> String;
}

#[derive(Debug)]
pub(super) struct Queue<T> {
    rows: HashMap<PropostaId, Row<T>>,
    partners: HashMap<String, Waiting>,
}

#[derive(Debug)]
struct Row<T> {
    task: T,
    /// Where it waits, or its lease's end; `None` once it has ended.
    place: Option<Place>,
    /// A lease that is not recorded yet ends then.
    leased_until: Option<Duration>,
    /// Counts its leases: the last one's holder is the only one who may record.
    fence: u64,
}

#[derive(Clone, Debug)]
struct Place {
    at: Duration,
    host: String,
}

/// What waits of one partner. Times are those of the clock that never jumps.
#[derive(Debug, Default)]
struct Waiting {
    /// Each host by the time of its first.
    heads: BTreeSet<(Duration, String)>,
    hosts: HashMap<String, BTreeSet<(Duration, PropostaId)>>,
}

impl<T: Task> Queue<T> {
    /// Puts a new task in, due at `at`.
    pub(super) fn add(&mut self, task: T, at: Option<Duration>) {
        let id = task.id();
        self.rows.insert(id, Row { task, place: None, leased_until: None, fence: 0 });
        self.wait(id, at);
    }

    pub(super) fn get(&self, id: PropostaId) -> Option<&T> {
        self.rows.get(&id).map(|row| &row.task)
    }

    /// Hands out what is due, the longest due partner first, as far as there is room.
    pub(super) fn lease(&mut self, room: &Room<'_>, now: Duration, time: Duration) -> Leased<T> {
        let mut due: Vec<_> = self
            .partners
            .iter()
            .filter_map(|(partner, waiting)| Some((waiting.heads.first()?.0, partner)))
            .filter(|(at, partner)| *at <= now && room.admits(partner))
            .map(|(at, partner)| (at, partner.clone()))
            .collect();
        due.sort_unstable();
        let mut leases = Vec::new();
        for (_, partner) in due {
            while let Some((id, permit)) = self.partners.get(&partner).and_then(|waiting| {
                let host = waiting.due_host(room, &partner, now)?;
                let (_, id) = waiting.hosts.get(host)?.first()?;
                Some((*id, room.take(&partner, host)?))
            }) {
                let Some(row) = self.rows.get_mut(&id) else { break };
                row.fence += 1;
                row.leased_until = Some(now + time);
                leases.push(Lease { task: row.task.clone(), fence: row.fence, permit });
                self.wait(id, Some(now + time));
            }
        }
        let admitted = self.partners.iter().filter(|(partner, _)| room.admits(partner));
        let next = admitted.filter_map(|(_, waiting)| waiting.next(room)).min();
        Leased { leases, next: next.map(|at| at.saturating_sub(now)) }
    }

    /// Stores a task after its attempt; `false`, and nothing stored, where the lease was lost.
    pub(super) fn record(&mut self, fence: u64, task: T, at: Option<Duration>) -> bool {
        let id = task.id();
        match self.rows.get_mut(&id) {
            Some(row) if row.fence == fence => {
                row.task = task;
                row.leased_until = None;
            }
            Some(_) | None => return false,
        }
        self.wait(id, at);
        true
    }

    /// Gives a lease back unused, due again at `at`.
    pub(super) fn put_back(&mut self, fence: u64, id: PropostaId, at: Duration) {
        if let Some(row) = self.rows.get_mut(&id).filter(|row| row.fence == fence) {
            row.leased_until = None;
            self.wait(id, Some(at));
        }
    }

    /// Changes a task that nobody holds. One that is leased stays as it is: its attempt is under way.
    pub(super) fn change(&mut self, id: PropostaId, now: Duration, change: impl FnOnce(T) -> (T, Option<Duration>)) {
        let Some(row) = self.rows.get_mut(&id) else { return };
        if row.leased_until.is_none_or(|until| until <= now) {
            let (task, at) = change(row.task.clone());
            row.task = task;
            self.wait(id, at);
        }
    }

    /// What waits, and the time since which the longest due of it is.
    pub(super) fn waiting(&self, now: Duration) -> (usize, Duration) {
        let count = self.partners.values().flat_map(|waiting| waiting.hosts.values()).map(BTreeSet::len).sum();
        let first = self.partners.values().filter_map(|waiting| waiting.heads.first()).map(|(at, _)| *at).min();
        (count, first.map_or(Duration::ZERO, |at| now.saturating_sub(at)))
    }

    /// Moves a task to its new place.
    fn wait(&mut self, id: PropostaId, at: Option<Duration>) {
        let Some(row) = self.rows.get_mut(&id) else { return };
        let partner = row.task.client_id();
        let host = row.place.as_ref().map_or_else(|| row.task.host(), |place| place.host.clone());
        let old = std::mem::replace(&mut row.place, at.map(|at| Place { at, host: host.clone() }));
        if !self.partners.contains_key(partner) {
            self.partners.insert(partner.to_owned(), Waiting::default());
        }
        let Some(waiting) = self.partners.get_mut(partner) else { return };
        waiting.change(&host, |rows| {
            if let Some(old) = old {
                rows.remove(&(old.at, id));
            }
            rows.extend(at.map(|at| (at, id)));
        });
        if waiting.heads.is_empty() {
            self.partners.remove(partner);
        }
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { rows: HashMap::new(), partners: HashMap::new() }
    }
}

impl Waiting {
    /// The host with the longest due task, of those that have a place left.
    fn due_host(&self, room: &Room<'_>, partner: &str, now: Duration) -> Option<&str> {
        if !room.admits(partner) {
            return None;
        }
        let due = self.heads.iter().take_while(|(at, _)| *at <= now);
        due.map(|(_, host)| host.as_str()).find(|host| room.admits_host(host))
    }

    /// When something is due that has a place.
    fn next(&self, room: &Room<'_>) -> Option<Duration> {
        self.heads.iter().find(|(_, host)| room.admits_host(host)).map(|(at, _)| *at)
    }

    /// Changes what waits for a host, and keeps its head true.
    fn change(&mut self, host: &str, change: impl FnOnce(&mut BTreeSet<(Duration, PropostaId)>)) {
        let rows = self.hosts.entry(host.to_owned()).or_default();
        let before = rows.first().map(|(at, _)| *at);
        change(rows);
        let after = rows.first().map(|(at, _)| *at);
        if rows.is_empty() {
            self.hosts.remove(host);
        }
        if before != after {
            if let Some(before) = before {
                self.heads.remove(&(before, host.to_owned()));
            }
            self.heads.extend(after.map(|at| (at, host.to_owned())));
        }
    }
}

impl Task for Delivery {
    fn id(&self) -> PropostaId {
        self.evento().id().proposta()
    }

    fn client_id(&self) -> &str {
        Delivery::client_id(self)
    }

    fn host(&self) -> String {
        self.url().host()
    }
}

impl Task for Mensagem {
    fn id(&self) -> PropostaId {
        self.proposta()
    }

    fn client_id(&self) -> &str {
        Mensagem::client_id(self)
    }

    /// All go the same way.
    fn host(&self) -> String {
        String::new()
    }
}
