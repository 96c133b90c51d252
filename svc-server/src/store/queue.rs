//! Work in memory that waits for its time: by partner, by host, by time, so that neither a partner nor a host that has no
//! place left is walked through on the way to the others.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use svc_core::PropostaId;

use crate::bounds::Room;
use crate::outbox::{Lease, Leased};
use crate::partners::Partners;
use crate::store::{Task, Waits};

#[derive(Debug)]
pub(crate) struct Queue<T> {
    rows: HashMap<PropostaId, Row<T>>,
    partners: HashMap<String, Waiting>,
}

#[derive(Debug)]
struct Row<T> {
    task: T,
    /// Since when it is due, or will be; `None` once it has ended.
    due: Option<Duration>,
    /// Where it waits: when it is due, its lease's end, or after it was put back.
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
        self.rows.insert(id, Row { task, due: at, place: None, leased_until: None, fence: 0 });
        self.wait(id, at);
    }

    pub(super) fn get(&self, id: PropostaId) -> Option<&T> {
        self.rows.get(&id).map(|row| &row.task)
    }

    /// When a task is due, and until when it is leased.
    #[cfg(test)]
    pub(super) fn times(&self, id: PropostaId) -> (Option<Duration>, Option<Duration>) {
        self.rows.get(&id).map_or((None, None), |row| (row.due, row.leased_until))
    }

    /// Hands out what is due, as far as there is room: first to the partner with the least under way, of those with as much
    /// to the one that has waited longest.
    pub(super) fn lease(&mut self, room: &Room<'_>, now: Duration, time: Duration) -> Leased<T> {
        let mut due: Vec<_> = self
            .partners
            .iter()
            .filter_map(|(partner, waiting)| Some((waiting.heads.first()?.0, partner)))
            .filter(|(at, partner)| *at <= now && room.admits(partner))
            .map(|(at, partner)| (room.in_flight(partner), at, partner.clone()))
            .collect();
        due.sort_unstable();
        let mut leases = Vec::new();
        for (_, _, partner) in due {
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
        let next = admitted.filter_map(|(partner, waiting)| waiting.next(room, partner)).min();
        Leased { leases, next: next.map(|at| at.saturating_sub(now)) }
    }

    /// Stores a task after its attempt; `false`, and nothing stored, where the lease was lost.
    pub(super) fn record(&mut self, fence: u64, task: T, at: Option<Duration>) -> bool {
        let id = task.id();
        match self.rows.get_mut(&id) {
            Some(row) if row.fence == fence => {
                row.task = task;
                row.due = at;
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
    pub(super) fn change(
        &mut self,
        id: PropostaId,
        now: Duration,
        change: impl FnOnce(T) -> (T, Option<Duration>),
    ) -> bool {
        let Some(row) = self.rows.get_mut(&id).filter(|row| row.leased_until.is_none_or(|until| until <= now)) else {
            return false;
        };
        let (task, at) = change(row.task.clone());
        row.task = task;
        row.due = at;
        self.wait(id, at);
        true
    }

    /// Puts a task in the place of one that is due when it was. Whoever holds that has an older copy of it, which must not come
    /// back.
    pub(super) fn replace(&mut self, id: PropostaId, by: impl FnOnce(T) -> T) {
        if let Some(row) = self.rows.get_mut(&id) {
            row.task = by(row.task.clone());
            row.fence += 1;
        }
    }

    /// What waits: how much of these partners, since when the longest due of it is, and how much of others.
    pub(super) fn waiting(&self, partners: &Partners, now: Duration) -> Waits {
        let mut waits = Waits::default();
        for (partner, waiting) in &self.partners {
            let ids = waiting.hosts.values().flatten().map(|(_, id)| id);
            if partners.get(partner).is_none() {
                waits.of_removed += ids.count();
                continue;
            }
            for due in ids.filter_map(|id| self.rows.get(id)?.due) {
                waits.count += 1;
                waits.oldest = waits.oldest.max(now.saturating_sub(due));
            }
        }
        waits
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
        due.map(|(_, host)| host.as_str()).find(|host| room.admits_host(partner, host))
    }

    /// When something is due that has a place.
    fn next(&self, room: &Room<'_>, partner: &str) -> Option<Duration> {
        self.heads.iter().find(|(_, host)| room.admits_host(partner, host)).map(|(at, _)| *at)
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

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use svc_core::{Acao, Delivery, DigestKey, NovaProposta, Schedule};

    use super::*;
    use crate::bounds::{Bounds, Limits};
    use crate::{NewPartner, Random};

    /// A delivery of this number, for one of four partners at one of four hosts.
    fn delivery(number: u64) -> Delivery {
        let now = DateTime::UNIX_EPOCH;
        let nova = NovaProposta::builder("P").nome("Ana").cpf("111.444.777-35").whatsapp("5511900000018");
        let nova = nova.webhook_url(format!("https://h{}.example/", number / 4 % 4)).build().unwrap();
        let id = PropostaId::from_random(u128::from(number).to_be_bytes());
        let proposta = nova.open(id, &format!("p{}", number % 4), &DigestKey::derive(&[7; 32]).unwrap(), now);
        Delivery::of(&proposta.apply(Acao::Aceitar, now).unwrap(), &Schedule::HOMOLOGACAO, now)
    }

    /// What stands in the rows stands in the lanes, at its place, and nothing else does.
    fn check(queue: &Queue<Delivery>) {
        let mut places = HashMap::<(&str, &str), BTreeSet<(Duration, PropostaId)>>::new();
        for (id, row) in &queue.rows {
            if let Some(Place { at, host }) = &row.place {
                places.entry((row.task.client_id(), host)).or_default().insert((*at, *id));
            }
        }
        let lanes = queue.partners.iter().flat_map(|(partner, waiting)| {
            let heads: BTreeSet<_> =
                waiting.hosts.iter().map(|(host, rows)| (rows.first().unwrap().0, host.clone())).collect();
            assert_eq!(heads, waiting.heads);
            waiting.hosts.iter().map(move |(host, rows)| ((partner.as_str(), host.as_str()), rows.clone()))
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
        let mut leased = 0;
        for round in 0..8 {
            let bounds = Bounds::new(Limits { total: 12, per_partner: 4, per_host: 2 });
            let room = bounds.room(&partners);
            let (mut queue, mut now, mut held) = (Queue::default(), Duration::ZERO, Vec::new());
            for number in round * 1_000..round * 1_000 + 1_000 {
                now += Duration::from_millis(draw(50));
                let soon = now + Duration::from_millis(draw(400));
                match draw(6) {
                    0 | 1 => queue.add(delivery(number), Some(soon)),
                    2 => {
                        let Leased { leases, next } = queue.lease(&room, now, Duration::from_millis(300));
                        leased += leases.len();
                        held.extend(leases);
                        assert!(queue.partners.iter().all(|(partner, w)| w.due_host(&room, partner, now).is_none()));
                        assert!(next.is_none_or(|next| next > Duration::ZERO));
                    }
                    3 if !held.is_empty() => {
                        let Lease { task, fence, .. } = held.swap_remove(draw(held.len() as u64) as usize);
                        queue.record(fence, task, (draw(2) == 0).then_some(soon));
                    }
                    4 if !held.is_empty() => {
                        let Lease { task, fence, .. } = held.swap_remove(draw(held.len() as u64) as usize);
                        queue.put_back(fence, task.id(), soon);
                    }
                    _ => drop(queue.change(delivery(draw(number + 1)).id(), now, |task| (task, Some(now)))),
                }
                check(&queue);
            }
        }
        assert!(leased > 500, "{leased}");
    }
}
