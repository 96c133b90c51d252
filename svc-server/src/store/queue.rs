//! Work in memory that waits for its time: by partner, by host, by time, so that neither a partner nor a host that has no
//! place left is walked through on the way to the others.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use svc_core::PropostaId;

use crate::bounds::{Permit, Room};
use crate::outbox::{Lease, Leased};
use crate::partners::Partners;
use crate::store::memory::Records;
use crate::store::{Task, Waits};

/// Where the tasks of one kind wait. They themselves stand in the records, which every call gets too.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    partners: HashMap<Arc<str>, Waiting>,
}

/// A task, and what is to become of it.
#[derive(Debug)]
pub(crate) struct Row<T> {
    /// Partner and host of a task never change: by them it is found where it waits.
    pub(super) task: T,
    /// Since when it is due, or will be; `None` once it has ended.
    due: Option<Duration>,
    /// Where it waits: when it is due, at its lease's end, or after it was put back.
    at: Option<Duration>,
    /// Whether somebody has it, until `at`.
    leased: bool,
    /// Counts its leases: the last one's holder is the only one who may record.
    fence: u64,
}

/// What waits of one partner. Times are those of the clock that never jumps.
#[derive(Debug, Default)]
struct Waiting {
    /// Each host by the time of its first.
    heads: BTreeSet<(Duration, Arc<str>)>,
    hosts: HashMap<Arc<str>, Lane>,
}

/// What waits for a host.
#[derive(Debug)]
struct Lane {
    /// The key it stands under, shared with its head.
    host: Arc<str>,
    rows: BTreeSet<(Duration, PropostaId)>,
}

impl<T> Row<T> {
    /// A new task, which waits nowhere yet.
    pub(super) const fn new(task: T) -> Self {
        Self { task, due: None, at: None, leased: false, fence: 0 }
    }

    /// When it is due, and until when it is leased.
    #[cfg(test)]
    pub(super) fn times(&self) -> (Option<Duration>, Option<Duration>) {
        (self.due, self.at.filter(|_| self.leased))
    }

    /// Puts another in its task's place, due when that was. Whoever holds that has an older copy of it, which must not come back.
    pub(super) fn replace(&mut self, by: impl FnOnce(&T) -> T) {
        self.task = by(&self.task);
        self.fence += 1;
    }
}

impl Queue {
    /// Lets a new task wait until it is due.
    pub(super) fn add<T: Task>(&mut self, row: &mut Row<T>, at: Option<Duration>) {
        row.due = at;
        self.wait(row, at);
    }

    /// Hands out what is due, as far as there is room: first to the partner with the least under way, of those with as much
    /// to the one that has waited longest.
    pub(super) fn lease<T: Task>(
        &mut self,
        records: &mut Records,
        room: &Room<'_>,
        now: Duration,
        time: Duration,
    ) -> Leased<T> {
        let due = self.partners.iter().filter(|(_, waiting)| waiting.heads.first().is_some_and(|(at, _)| *at <= now));
        let mut due: Vec<_> = due
            .filter_map(|(partner, waiting)| {
                Some((room.admits(partner)?, waiting.heads.first()?.0, Arc::clone(partner)))
            })
            .collect();
        due.sort_unstable();
        let mut leases = Vec::new();
        for (_, _, partner) in due {
            while leases.len() < room.most()
                && let Some(waiting) = self.partners.get(&partner)
                && let Some((id, permit)) = waiting.first_due(room, &partner, now)
            {
                let Some(row) = row_of::<T>(records, id) else { break };
                row.fence += 1;
                row.leased = true;
                leases.push(Lease { task: row.task.clone(), fence: row.fence, permit });
                self.wait(row, Some(now + time));
            }
        }
        let mut next: Option<Duration> = None;
        for (partner, waiting) in &self.partners {
            // Most begin after the first that has been seen, and need no closer look.
            let may_be_first = waiting.heads.first().is_some_and(|(at, _)| next.is_none_or(|next| *at < next));
            if may_be_first && room.admits(partner).is_some() {
                next = waiting.next(room, partner).into_iter().chain(next).min();
            }
        }
        Leased { leases, next: next.map(|at| at.saturating_sub(now)) }
    }

    /// Stores a task after its attempt, and gives the one that it was before; `None`, and nothing stored, where the lease was
    /// lost.
    pub(super) fn record<T: Task>(&mut self, row: &mut Row<T>, fence: u64, task: T, at: Option<Duration>) -> Option<T> {
        if row.fence != fence {
            return None;
        }
        let before = std::mem::replace(&mut row.task, task);
        row.due = at;
        row.leased = false;
        self.wait(row, at);
        Some(before)
    }

    /// Gives a lease back unused, due again at `at`.
    pub(super) fn put_back<T: Task>(&mut self, row: &mut Row<T>, fence: u64, at: Duration) {
        if row.fence == fence {
            row.leased = false;
            self.wait(row, Some(at));
        }
    }

    /// Changes a task that nobody holds. One that is leased stays as it is: its attempt is under way.
    pub(super) fn change<T: Task>(
        &mut self,
        row: &mut Row<T>,
        now: Duration,
        change: impl FnOnce(T) -> (T, Option<Duration>),
    ) -> bool {
        if row.leased && row.at.is_some_and(|until| until > now) {
            return false;
        }
        let (task, at) = change(row.task.clone());
        row.task = task;
        row.due = at;
        row.leased = false;
        // Who had it, and comes late, knows nothing of the change.
        row.fence += 1;
        self.wait(row, at);
        true
    }

    /// What waits: how much of these partners, since when the longest due of it is, and how much of others.
    pub(super) fn waiting<T: Task>(&self, records: &Records, partners: &Partners, now: Duration) -> Waits {
        let mut waits = Waits::default();
        for (partner, waiting) in &self.partners {
            let ids = waiting.hosts.values().flat_map(|lane| &lane.rows).map(|(_, id)| id);
            if partners.get(partner).is_none() {
                waits.of_removed += ids.count();
                continue;
            }
            for due in ids.filter_map(|id| T::row(records.get(id)?)?.due) {
                waits.count += 1;
                waits.oldest = waits.oldest.max(now.saturating_sub(due));
            }
        }
        waits
    }

    /// Moves a task to its new place.
    fn wait<T: Task>(&mut self, row: &mut Row<T>, at: Option<Duration>) {
        let old = std::mem::replace(&mut row.at, at);
        let (id, partner) = (row.task.id(), row.task.client_id());
        let waiting = match self.partners.get_mut(partner) {
            Some(waiting) => waiting,
            None => self.partners.entry(partner.into()).or_default(),
        };
        waiting.change(&row.task.host(), |rows| {
            if let Some(old) = old {
                rows.remove(&(old, id));
            }
            rows.extend(at.map(|at| (at, id)));
        });
        if waiting.heads.is_empty() {
            self.partners.remove(partner);
        }
    }
}

/// A record's task of this kind.
pub(super) fn row_of<T: Task>(records: &mut Records, id: PropostaId) -> Option<&mut Row<T>> {
    T::row_mut(records.get_mut(&id)?)
}

impl Waiting {
    /// The longest due, of those whose host has a place left, and that place.
    fn first_due(&self, room: &Room<'_>, partner: &Arc<str>, now: Duration) -> Option<(PropostaId, Permit)> {
        let mut due = self.heads.iter().take_while(|(at, _)| *at <= now);
        let (_, host) = due.find(|(_, host)| room.admits_host(partner, host))?;
        let (_, id) = self.hosts.get(host)?.rows.first()?;
        Some((*id, room.take(Arc::clone(partner), Arc::clone(host))?))
    }

    /// When something is due that has a place.
    fn next(&self, room: &Room<'_>, partner: &str) -> Option<Duration> {
        self.heads.iter().find(|(_, host)| room.admits_host(partner, host)).map(|(at, _)| *at)
    }

    /// Changes what waits for a host, and keeps its head true.
    fn change(&mut self, host: &str, change: impl FnOnce(&mut BTreeSet<(Duration, PropostaId)>)) {
        let lane = match self.hosts.get_mut(host) {
            Some(lane) => lane,
            None => {
                let host = Arc::<str>::from(host);
                self.hosts.entry(Arc::clone(&host)).or_insert(Lane { host, rows: BTreeSet::new() })
            }
        };
        let before = lane.rows.first().map(|(at, _)| *at);
        change(&mut lane.rows);
        let after = lane.rows.first().map(|(at, _)| *at);
        if before != after {
            if let Some(before) = before {
                self.heads.remove(&(before, Arc::clone(&lane.host)));
            }
            self.heads.extend(after.map(|at| (at, Arc::clone(&lane.host))));
        }
        if lane.rows.is_empty() {
            self.hosts.remove(host);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use chrono::DateTime;
    use svc_core::{Acao, Delivery, DigestKey, Mensagem, NovaProposta, Schedule};

    use super::*;
    use crate::bounds::{Bounds, Limits};
    use crate::store::memory::Record;
    use crate::{NewPartner, Random};

    fn id(number: u64) -> PropostaId {
        PropostaId::from_random(u128::from(number).to_be_bytes())
    }

    /// The record of this number, of one of four partners, whose delivery to one of four hosts waits nowhere yet.
    fn record(number: u64) -> Box<Record> {
        let now = DateTime::UNIX_EPOCH;
        let nova = NovaProposta::builder("P").nome("Ana").cpf("111.444.777-35").whatsapp("5511900000018");
        let nova = nova.webhook_url(format!("https://h{}.example/", number / 4 % 4)).build().unwrap();
        let proposta = nova.open(id(number), format!("p{}", number % 4), &DigestKey::derive(&[7; 32]).unwrap(), now);
        let delivery = Delivery::of(&proposta.apply(Acao::Aceitar, now).unwrap(), &Schedule::HOMOLOGACAO, now);
        let mensagem = Row::new(Mensagem::of(&proposta, &Schedule::MENSAGEM, now));
        Box::new(Record { proposta, mensagem, delivery: Some(Box::new(Row::new(delivery))) })
    }

    /// What stands in the rows stands in the lanes, at its place, and nothing else does.
    fn check(queue: &Queue, records: &Records) {
        let mut places = HashMap::<(&str, Cow<'_, str>), BTreeSet<(Duration, PropostaId)>>::new();
        for row in records.values().filter_map(|record| record.delivery.as_ref()) {
            if let Some(at) = row.at {
                let hosts = places.entry((row.task.client_id(), row.task.host())).or_default();
                hosts.insert((at, row.task.id()));
            }
        }
        let lanes = queue.partners.iter().flat_map(|(partner, waiting)| {
            let heads: BTreeSet<_> =
                waiting.hosts.iter().map(|(host, lane)| (lane.rows.first().unwrap().0, Arc::clone(host))).collect();
            assert_eq!(heads, waiting.heads);
            waiting.hosts.iter().map(move |(host, lane)| ((&**partner, Cow::Borrowed(&**host)), lane.rows.clone()))
        });
        assert_eq!(lanes.collect::<HashMap<_, _>>(), places);
    }

    #[test]
    fn c34_whatever_happens_rows_and_lanes_agree_and_nothing_due_with_room_is_left() {
        // The fourth partner is none.
        let entries: Vec<_> =
            ["p0", "p1", "p2"].iter().map(|id| NewPartner::draw(id, &Random::system()).unwrap().entry).collect();
        let partners = Partners::from_json(format!("[{}]", entries.join(",")).as_bytes()).unwrap();
        let mut state = 88_172_645_463_325_252_u64;
        let mut draw = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let (mut leased, mut more) = (0, 0);
        for round in 0..8 {
            let bounds = Bounds::new(Limits { total: 12, per_partner: 4, per_host: 2 });
            let room = bounds.room(&partners);
            let (mut queue, mut records) = (Queue::default(), Records::new());
            let (mut now, mut held) = (Duration::ZERO, Vec::new());
            for number in round * 1_000..round * 1_000 + 1_000 {
                now += Duration::from_millis(draw(50));
                let soon = now + Duration::from_millis(draw(400));
                match draw(6) {
                    0 | 1 => {
                        let mut record = record(number);
                        queue.add(record.delivery.as_mut().unwrap(), Some(soon));
                        records.insert(id(number), record);
                    }
                    2 => {
                        let time = Duration::from_millis(300);
                        let most = draw(8) as usize;
                        let Leased { leases, next } =
                            queue.lease::<Delivery>(&mut records, &room.at_most(most), now, time);
                        assert!(leases.len() <= most);
                        more += usize::from(next == Some(Duration::ZERO));
                        leased += leases.len();
                        let begins = |(partner, w): (&_, &Waiting)| w.first_due(&room, partner, now).is_some();
                        let is_more = queue.partners.iter().any(begins);
                        assert!(leases.len() == most || !is_more);
                        assert_eq!(next == Some(Duration::ZERO), is_more);
                        held.extend(leases);
                    }
                    3 if !held.is_empty() => {
                        let Lease { task, fence, .. } = held.swap_remove(draw(held.len() as u64) as usize);
                        let row = row_of::<Delivery>(&mut records, task.id()).unwrap();
                        queue.record(row, fence, task, (draw(2) == 0).then_some(soon));
                    }
                    4 if !held.is_empty() => {
                        let Lease { task, fence, .. } = held.swap_remove(draw(held.len() as u64) as usize);
                        queue.put_back(row_of::<Delivery>(&mut records, task.id()).unwrap(), fence, soon);
                    }
                    _ => {
                        if let Some(row) = row_of::<Delivery>(&mut records, id(draw(number + 1))) {
                            queue.change(row, now, |task| (task, Some(now)));
                        }
                    }
                }
                check(&queue, &records);
            }
        }
        assert!(leased > 500 && more > 100, "{leased}, {more}");
    }
}
