//! One deployment from its seed: servers, partners, customers, an operator with a heavy hand, and the quiet after it.

use std::sync::Arc;
use std::time::Duration;

use svc_core::{Acao, IpRange, NovaProposta, Perfil, Policy, PropostaId, Schedule, Secret, Status};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::app::App;
use crate::config::Config;
use crate::confirmar::Decided;
use crate::deliver::Webhooks;
use crate::detached::detached;
use crate::key::ServerKey;
use crate::message::Messages;
use crate::outbox::Outbox;
use crate::partners::{Partners, SharedPartners};
use crate::propostas::Posted;
use crate::reply::Problem;
use crate::seams::Random;
use crate::sender::Sender;
use crate::simulation::Link;
use crate::simulation::receiver::{address, transport};
use crate::simulation::world::{Counts, Faults, ServerId, World};
use crate::store::Store;

/// What a seed came to.
pub(super) struct Told {
    pub(super) trace: Vec<String>,
    pub(super) violation: Option<String>,
    pub(super) counts: Counts,
}

/// Webhooks are given up after a minute and a half, so that a story is short.
const SCHEDULE: [u64; 5] = [0, 2, 5, 20, 60];
/// Nothing takes longer once all is well again: the schedule, a lease for each of its attempts, and as long as a clock can
/// be set back: what was due by a time of day that has not come yet waits for it.
const QUIET: Duration = Duration::from_secs(1_200 + 600);
const OLD: &str = "whsec_c2VncmVkby1kZS1kZW1vbnN0cmFjYW8tc3Zj";
const NEW: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

pub(super) fn simulate(seed: u64) -> Told {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let schedule = Schedule::new(SCHEDULE.map(Duration::from_secs).to_vec()).unwrap();
        let deployment = Deployment::new(World::new(seed, schedule));
        deployment.live().await;
        let (trace, violation, counts) = deployment.world.told();
        Told { trace, violation, counts }
    })
}

struct Deployment {
    world: Arc<World>,
    partners: SharedPartners,
    secrets: Arc<[Secret]>,
    servers: std::sync::Mutex<Vec<Option<Server>>>,
}

/// A server in one of its lives.
struct Server {
    id: ServerId,
    app: Arc<App>,
    _outboxes: JoinSet<()>,
}

impl Deployment {
    fn new(world: Arc<World>) -> Arc<Self> {
        let secrets = [OLD, NEW].map(|text| Secret::parse(text).unwrap()).into();
        let partners = SharedPartners::from(partners(&[OLD]));
        let count = 1 + world.draw.below(3);
        let deployment = Self { world, partners, secrets, servers: std::sync::Mutex::default() };
        for _ in 0..count {
            let server = deployment.start();
            deployment.servers.lock().unwrap().push(Some(server));
        }
        Arc::new(deployment)
    }

    /// A new life: the same keys, partners and store, and nothing of what was in memory.
    fn start(&self) -> Server {
        let world = &self.world;
        let skew = i64::try_from(world.draw.below(600_001)).unwrap() - 300_000;
        let id = world.begin_life(if world.draw.per_mille(300) { skew } else { 0 });
        let mut config = Config::homologacao(self.partners.clone()).unwrap();
        config.policy = Policy::new(Perfil::Homologacao).open(IpRange::parse("127.0.0.0/8").unwrap());
        config.base_url = Some("http://127.0.0.1".to_owned());
        config.schedule = world.schedule.clone();
        config.link_key = ServerKey::new(vec![7; 32]).unwrap();
        // No authority is believed: nothing goes over TLS here.
        config.webhook_ca = Some(String::new());
        config.sender = Sender::Channel(world.customers());
        config.clock = world.clock_of(id);
        let draws = Arc::clone(world);
        config.random = Random::from_fn(move |bytes| draws.draw.fill(bytes));
        config.transport = transport(Arc::clone(world), id, Arc::clone(&self.secrets));
        let store = Store::simulated(Link::new(world.memory_of(id), Arc::clone(world), id));
        let app = Arc::new(App::new(config, store, "http://127.0.0.1"));
        let mut outboxes = JoinSet::new();
        outboxes.spawn(Outbox::new(Webhooks::new(Arc::clone(&app))).run(std::future::pending()));
        outboxes.spawn(Outbox::new(Messages::new(Arc::clone(&app))).run(std::future::pending()));
        world.tell(|| format!("server {id} starts"));
        Server { id, app, _outboxes: outboxes }
    }

    /// The whole story.
    async fn live(self: &Arc<Self>) {
        let world = &self.world;
        // One in four stories goes over a perfect way to the store: what is measured there is exact.
        let rough = !world.draw.per_mille(250);
        let faults = Faults { away: 30, torn: 30, late: 200 };
        world.begin(if rough { faults } else { Faults::default() });
        let mut stories = JoinSet::new();
        for number in 0..2 + world.draw.below(4) {
            let deployment = Arc::clone(self);
            stories.spawn(async move { deployment.proposal(number).await });
        }
        let deployment = Arc::clone(self);
        stories.spawn(async move { deployment.operator(rough).await });
        while stories.join_next().await.is_some() {}
        self.all_is_well().await;
        let began = world.elapsed();
        while !world.is_quiet() && !world.is_violated() {
            if world.elapsed() > began + QUIET {
                return world.violate("something is never done".to_owned());
            }
            sleep(Duration::from_secs(1)).await;
        }
        world.check();
        world.check_end();
    }

    /// What an operator, and whatever else moves servers, does to them.
    async fn operator(&self, rough: bool) {
        let world = &self.world;
        for _ in 0..2 + world.draw.below(6) {
            sleep(world.draw.millis(12_000)).await;
            let which = usize::try_from(world.draw.below(self.servers.lock().unwrap().len() as u64)).unwrap();
            let id = self.servers.lock().unwrap()[which].as_ref().map(|server| server.id);
            match (world.draw.below(9), id) {
                (0..=2, Some(id)) => {
                    world.kill(id);
                    self.servers.lock().unwrap()[which] = None;
                }
                (0..=3, None) => {
                    let server = self.start();
                    self.servers.lock().unwrap()[which] = Some(server);
                }
                // What a perfect way measures exactly, these two would blur.
                (3 | 4, Some(id)) if rough => {
                    let time = world.draw.millis(50_000);
                    world.count(|counts| counts.pauses += 1);
                    world.tell(|| format!("server {id} is stopped for {time:?}"));
                    world.pause(id, time);
                }
                (5, Some(id)) if rough => {
                    let millis = i64::try_from(world.draw.below(1_200_001)).unwrap() - 600_000;
                    world.count(|counts| counts.jumps += 1);
                    world.tell(|| format!("server {id}'s clock jumps by {millis} ms"));
                    world.jump(id, millis);
                }
                (6, _) => {
                    let steps: [&[&str]; 3] = [&[OLD], &[NEW, OLD], &[NEW]];
                    let secrets = world.draw.pick(&steps);
                    world.count(|counts| counts.rotations += 1);
                    self.partners.replace(partners(secrets));
                }
                (7, _) => {
                    if let Some(app) = self.any() {
                        // Everything that was answered until now.
                        let forgotten = app.store.forget(app.config.clock.now()).await.unwrap_or(0);
                        world.count(|counts| counts.forgotten += forgotten as u64);
                    }
                }
                _ => {}
            }
        }
    }

    /// Every server lives and runs, every way is open, every receiver takes what it gets.
    async fn all_is_well(&self) {
        self.world.tell(|| "all is well".to_owned());
        self.world.heal();
        let dead: Vec<usize> = {
            let servers = self.servers.lock().unwrap();
            (0..servers.len()).filter(|which| servers[*which].is_none()).collect()
        };
        for which in dead {
            let server = self.start();
            self.servers.lock().unwrap()[which] = Some(server);
        }
    }

    /// A server that lives, whether or not it runs just now.
    fn any(&self) -> Option<Arc<App>> {
        let servers = self.servers.lock().unwrap();
        let alive: Vec<_> = servers.iter().flatten().collect();
        (!alive.is_empty()).then(|| Arc::clone(&self.world.draw.pick(&alive).app))
    }

    /// A proposal from its partner's first try to its customer's last click.
    async fn proposal(self: Arc<Self>, number: u64) {
        let world = &self.world;
        sleep(world.draw.millis(20_000)).await;
        let Some(id) = self.create(number).await else { return };
        if world.draw.per_mille(300) {
            // The same again, later, and another under its id.
            sleep(world.draw.millis(10_000)).await;
            if let Some(again) = self.create(number).await
                && again != id
            {
                world.violate(format!("proposal {number} was {id} and is {again}"));
            }
            let mut other = std::pin::pin!(self.post(number, "Outra Pessoa"));
            if let Ok(Some(Ok(_))) = timeout(PATIENCE, &mut other).await {
                world.violate(format!("another proposal under the id of {number} was taken"));
            }
        }
        let mut clicks = JoinSet::new();
        for _ in 0..world.draw.below(4) {
            let (deployment, acao) = (Arc::clone(&self), *world.draw.pick(&[Acao::Aceitar, Acao::Recusar]));
            let wait = world.draw.millis(15_000);
            clicks.spawn(async move {
                sleep(wait).await;
                deployment.click(id, acao).await;
            });
        }
        while clicks.join_next().await.is_some() {}
        if world.draw.per_mille(250) {
            sleep(world.draw.millis(120_000)).await;
            self.resend(id).await;
        }
    }

    /// Posts a proposal until it is taken. It must be there then, and must have been there as what it was called before.
    async fn create(&self, number: u64) -> Option<PropostaId> {
        let world = &self.world;
        for _ in 0..8 {
            match timeout(PATIENCE, self.post(number, "Ana Exemplo")).await {
                Ok(Some(Ok(posted))) => {
                    let (Posted::New(id) | Posted::Before(id)) = posted;
                    world.count(|counts| match posted {
                        Posted::New(_) => counts.proposals += 1,
                        Posted::Before(_) => counts.replays += 1,
                    });
                    if world.status(id).is_none() {
                        world.violate(format!("{id} was acknowledged and is not stored"));
                    }
                    world.tell(|| format!("proposal {number} is {id}"));
                    return Some(id);
                }
                Ok(Some(Err(Problem::PartnerIdInUse))) => {
                    world.violate(format!("proposal {number} is told that its id is another's"));
                    return None;
                }
                // Refused, cut, late, or nobody there.
                _ => sleep(world.draw.millis(4_000)).await,
            }
        }
        None
    }

    async fn post(&self, number: u64, nome: &str) -> Option<Result<Posted, Problem>> {
        let app = self.any()?;
        let host = number % 2;
        let nova = NovaProposta::builder(format!("P-{number}")).nome(nome).cpf("111.444.777-35");
        let nova =
            nova.whatsapp("5511900000018").webhook_url(format!("http://{}/webhook", address(host))).build().unwrap();
        let posted = detached(async move { app.keep(nova, "p".into(), app.config.clock.now()).await }).await;
        if matches!(posted, Err(Problem::PartnerIdInUse)) {
            self.world.count(|counts| counts.conflicts += 1);
        }
        Some(posted)
    }

    /// A customer's click, and what they are told of it.
    async fn click(&self, id: PropostaId, acao: Acao) {
        let world = &self.world;
        let Some(app) = self.any() else { return };
        let decided = async {
            let found = app.store.find(id).await.ok()??;
            let app = Arc::clone(&app);
            detached(async move { app.decide(found, acao).await }).await.ok()
        };
        let Ok(Some(decided)) = timeout(PATIENCE, decided).await else { return };
        let (told, wanted) = match decided {
            Decided::Now(proposta) | Decided::Before(proposta) => (proposta.status(), true),
            Decided::Otherwise(proposta) => (proposta.status(), false),
        };
        world.count(|counts| counts.answers += 1);
        world.tell(|| format!("{id} is {told} to its customer, who said {acao}"));
        let of = match acao {
            Acao::Aceitar => Status::Aceito,
            Acao::Recusar => Status::Recusado,
        };
        if (told == of) != wanted || world.status(id) != Some(told) {
            world.violate(format!("{id}: {acao} was answered {told}, and {:?} is stored", world.status(id)));
        }
    }

    async fn resend(&self, id: PropostaId) {
        let Some(app) = self.any() else { return };
        let (schedule, now) = (app.config.schedule.clone(), app.config.clock.now());
        self.world.resends(id);
        let resend = move |delivery: svc_core::Delivery| delivery.resend(&schedule, now);
        let _ = timeout(PATIENCE, app.resend(id, resend, &app.wake_webhooks)).await;
    }
}

/// How long a partner or a customer waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

fn partners(secrets: &[&str]) -> Partners {
    let secrets: Vec<_> = secrets.iter().map(|secret| format!("\"{secret}\"")).collect();
    let file = format!(
        r#"[{{"client_id":"p","creditor_name":"Banco","webhook_secrets":[{}],"client_secret_sha256":"{}"}}]"#,
        secrets.join(","),
        "0".repeat(64)
    );
    Partners::from_json(file.as_bytes()).unwrap()
}
