//! Thin wrappers over `heddle-comm`: the store and the world of ranks.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use napi::bindgen_prelude::Object;
use napi::{Env, Result};
use napi_derive::napi;

use heddle_comm as comm;

use crate::groups::NativeGroup;
use crate::promise::background;
use crate::{fail, Failure};

fn seconds(name: &str, value: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(value).map_err(|_| fail(format!("{name} must be a number of seconds, got {value}")))
}

fn io(what: String, detail: String) -> Failure {
    comm::Error::Io { what, detail }.into()
}

fn invalid(text: String) -> Failure {
    comm::Error::Invalid(text).into()
}

/// Looks an address up; may wait for a name server, so never on the JavaScript thread.
fn resolve(host: &str, port: u16) -> std::result::Result<SocketAddr, Failure> {
    let found = (host, port).to_socket_addrs().map_err(|e| io(format!("cannot find {host}"), e.to_string()))?;
    let all: Vec<SocketAddr> = found.collect();
    let first = all.iter().find(|a| a.is_ipv4()).or(all.first());
    first.copied().ok_or_else(|| io(format!("cannot find {host}"), "it has no address".to_owned()))
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

#[napi]
#[derive(Default)]
pub struct StoreServer {
    server: Arc<Mutex<Option<comm::StoreServer>>>,
}

#[napi]
impl StoreServer {
    #[napi(constructor)]
    pub fn new() -> StoreServer {
        StoreServer::default()
    }

    /// Listens (port 0: any free one) and resolves to the port.
    #[napi]
    pub fn start<'e>(
        &self,
        env: &'e Env,
        host: String,
        port: u16,
        secret: String,
        run_id: String,
    ) -> Result<Object<'e>> {
        let server = self.server.clone();
        let work = move || {
            let started = comm::StoreServer::start(resolve(&host, port)?, secret.as_bytes(), &run_id)?;
            let port = started.addr().port();
            *server.lock().unwrap_or_else(|e| e.into_inner()) = Some(started);
            Ok(port)
        };
        background(env, work, |_, port: u16| Ok(port))
    }

    /// Number of its connections.
    #[napi(getter)]
    pub fn connections(&self) -> u32 {
        let server = self.server.lock().unwrap_or_else(|e| e.into_inner());
        server.as_ref().map_or(0, |server| server.connections() as u32)
    }

    #[napi]
    pub fn stop(&self) {
        let server = self.server.lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(server) = server {
            server.stop();
        }
    }
}

#[napi(object)]
pub struct StoreOptions {
    pub host: String,
    pub port: u16,
    pub secret: String,
    pub run_id: String,
    /// Seconds.
    pub timeout: f64,
}

/// A client of the store, for values that are text.
#[napi]
pub struct NativeStore {
    client: Arc<comm::StoreClient>,
}

#[napi]
impl NativeStore {
    #[napi]
    pub fn connect<'e>(env: &'e Env, options: StoreOptions) -> Result<Object<'e>> {
        let timeout = seconds("timeout", options.timeout)?;
        let StoreOptions { host, port, secret, run_id, .. } = options;
        let work = move || {
            let addr = resolve(&host, port)?;
            Ok(comm::StoreClient::connect(addr, secret.as_bytes(), &run_id, timeout)?)
        };
        background(env, work, |_, client| Ok(NativeStore { client: Arc::new(client) }))
    }

    /// Closes the connections that no call uses.
    #[napi]
    pub fn rest(&self) {
        self.client.rest();
    }

    #[napi]
    pub fn set<'e>(&self, env: &'e Env, key: String, value: String) -> Result<Object<'e>> {
        let client = self.client.clone();
        background(env, move || Ok(client.set(&key, value.as_bytes())?), |_, ()| Ok(()))
    }

    /// Waits for the key; `waitingFor` says in the error who should have set it.
    #[napi]
    pub fn get<'e>(&self, env: &'e Env, key: String, timeout: f64, waiting_for: Option<String>) -> Result<Object<'e>> {
        let (client, timeout) = (self.client.clone(), seconds("timeout", timeout)?);
        let waiting_for = waiting_for.unwrap_or_else(|| format!("key '{key}'"));
        let work = move || Ok(client.get(&key, &waiting_for, timeout)?);
        background(env, work, |_, value| Ok(text(value)))
    }

    /// Resolves to the value, or null.
    #[napi]
    pub fn try_get<'e>(&self, env: &'e Env, key: String) -> Result<Object<'e>> {
        let client = self.client.clone();
        let work = move || Ok(client.try_get(&key)?);
        background(env, work, |_, value: Option<Vec<u8>>| Ok(value.map(text)))
    }

    /// Adds to a counter and resolves to its new value.
    #[napi]
    pub fn add<'e>(&self, env: &'e Env, key: String, delta: i64) -> Result<Object<'e>> {
        let client = self.client.clone();
        background(env, move || Ok(client.add(&key, delta)?), |_, sum: i64| Ok(sum))
    }

    /// Resolves to `{ swapped, current }`; `current` is the value that was there instead, if any.
    #[napi]
    pub fn compare_and_set<'e>(
        &self,
        env: &'e Env,
        key: String,
        expected: Option<String>,
        value: String,
    ) -> Result<Object<'e>> {
        let client = self.client.clone();
        let work = move || {
            let expected = expected.as_ref().map(String::as_bytes);
            Ok(client.compare_and_set(&key, expected, value.as_bytes())?)
        };
        background(env, work, |_, outcome| {
            Ok(match outcome {
                comm::CompareAndSet::Swapped => Swap { swapped: true, current: None },
                comm::CompareAndSet::Current(current) => Swap { swapped: false, current: current.map(text) },
            })
        })
    }
}

#[napi(object)]
pub struct Swap {
    pub swapped: bool,
    pub current: Option<String>,
}

/// Kills this process `grace` seconds after its parent `parent` has ended, whatever it is doing.
#[napi]
pub fn end_with_parent(parent: u32, grace: f64) -> Result<()> {
    comm::end_with_parent(parent, seconds("grace", grace)?).map_err(|error| Failure::from(error).into())
}

#[napi(object)]
pub struct FlightCurrent {
    pub step: f64,
    pub description: String,
}

/// A recorded collective.
#[napi(object)]
pub struct FlightItem {
    /// Identity of the group, the same on all its ranks.
    pub group: String,
    /// Number of the collective in its group.
    pub sequence: f64,
    pub step: f64,
    pub description: String,
    /// Milliseconds since the Unix epoch.
    pub started: f64,
    /// The same; undefined while it runs.
    pub finished: Option<f64>,
    pub failed: bool,
}

#[napi(object)]
pub struct FlightRecord {
    pub rank: u32,
    pub size: u32,
    /// The last step noted.
    pub step: f64,
    /// The collective that was running, if any.
    pub current: Option<FlightCurrent>,
    /// The last collectives, oldest first.
    pub entries: Vec<FlightItem>,
}

/// Reads what a rank's flight recorder left.
#[napi]
pub fn read_flight(path: String) -> Result<FlightRecord> {
    let flight = comm::read_flight(Path::new(&path)).map_err(Failure::from)?;
    let current = flight.current.map(|entry| {
        let description = format!("{} (sequence {}, step {})", entry.description, entry.sequence, entry.step);
        FlightCurrent { step: entry.step as f64, description }
    });
    let item = |entry: comm::FlightEntry| FlightItem {
        group: format!("{:x}", entry.group),
        sequence: entry.sequence as f64,
        step: entry.step as f64,
        description: entry.description,
        started: entry.started as f64 / 1e6,
        finished: (entry.state != comm::FlightState::Running).then_some(entry.finished as f64 / 1e6),
        failed: entry.state == comm::FlightState::Failed,
    };
    let entries = flight.entries.into_iter().map(item).collect();
    Ok(FlightRecord { rank: flight.rank as u32, size: flight.size as u32, step: flight.step as f64, current, entries })
}

#[napi(object)]
pub struct WorldOptions {
    pub run_id: String,
    pub rank: u32,
    pub size: u32,
    /// Where the store listens.
    pub host: String,
    pub port: u16,
    pub secret: String,
    pub epoch: Option<i64>,
    pub name: Option<String>,
    /// Addresses to listen on; loopback if absent.
    pub bind: Option<Vec<String>>,
    /// The first and the last port to listen on; any free one if absent.
    pub ports: Option<(u16, u16)>,
    /// Seconds.
    pub timeout: Option<f64>,
    pub flight: Option<String>,
    /// What carries data: `auto`, `tcp`, `shared` or `mpi`.
    pub transport: Option<String>,
    /// The MPI library.
    pub mpi: Option<String>,
}

fn config(options: WorldOptions) -> std::result::Result<comm::Config, Failure> {
    let (rank, size) = (options.rank as usize, options.size as usize);
    let store = resolve(&options.host, options.port)?;
    let mut config = comm::Config::new(&options.run_id, rank, size, store, options.secret.as_bytes());
    config.epoch = options.epoch.unwrap_or(0) as u64;
    config.name = options.name.unwrap_or(config.name);
    config.flight = options.flight.map(PathBuf::from);
    config.mpi = options.mpi.map(PathBuf::from);
    config.transport = match options.transport.as_deref() {
        None | Some("auto") => comm::TransportKind::Auto,
        Some("tcp") => comm::TransportKind::Tcp,
        Some("shared") => comm::TransportKind::Shared,
        Some("mpi") => comm::TransportKind::Mpi,
        Some("checked") => comm::TransportKind::Checked,
        Some(other) => return Err(invalid(format!("transport '{other}' is not auto, tcp, shared, mpi or checked"))),
    };
    if let Some(timeout) = options.timeout {
        config.timeout = seconds("timeout", timeout).map_err(|e| invalid(e.reason))?;
        config.connect_timeout = config.timeout;
    }
    if let Some((first, last)) = options.ports {
        config.ports = first..=last;
    }
    if let Some(bind) = options.bind {
        config.bind =
            bind.iter().map(|host| Ok(resolve(host, 0)?.ip())).collect::<std::result::Result<_, Failure>>()?;
    }
    Ok(config)
}

#[napi]
pub struct NativeWorld {
    /// `None` once closed.
    world: Option<Arc<comm::World>>,
    rank: usize,
    size: usize,
}

impl NativeWorld {
    fn from(world: comm::World) -> NativeWorld {
        NativeWorld { rank: world.rank(), size: world.size(), world: Some(Arc::new(world)) }
    }

    fn world(&self) -> Result<&Arc<comm::World>> {
        self.world.as_ref().ok_or_else(|| fail("the world is closed"))
    }
}

#[napi]
impl NativeWorld {
    #[napi]
    pub fn connect<'e>(env: &'e Env, options: WorldOptions) -> Result<Object<'e>> {
        let work = move || Ok(comm::World::connect(config(options)?)?);
        background(env, work, |_, world| Ok(NativeWorld::from(world)))
    }

    /// `size` ranks inside this process.
    #[napi]
    pub fn in_process(size: u32) -> Result<Vec<NativeWorld>> {
        if size == 0 || size > 1024 {
            return Err(fail(format!("a world has 1 to 1024 ranks, got {size}")));
        }
        Ok(comm::World::in_process(size as usize).into_iter().map(NativeWorld::from).collect())
    }

    #[napi(getter)]
    pub fn rank(&self) -> u32 {
        self.rank as u32
    }

    #[napi(getter)]
    pub fn size(&self) -> u32 {
        self.size as u32
    }

    /// Ends the membership once its groups are gone too. Closing twice does nothing.
    #[napi]
    pub fn close(&mut self) {
        self.world = None;
    }

    #[napi]
    pub fn abort(&self, reason: String) {
        if let Some(world) = &self.world {
            world.abort(&reason);
        }
    }

    /// Whether this world has failed.
    #[napi(getter)]
    pub fn failed(&self) -> bool {
        self.world.as_ref().is_some_and(|w| w.failure().is_some())
    }

    /// Why there is no flight recorder though one was asked for, or null.
    #[napi(getter)]
    pub fn warning(&self) -> Option<String> {
        self.world.as_ref().and_then(|w| w.warning()).map(str::to_string)
    }

    /// Why ranks of this host share no memory though they would, or null.
    #[napi(getter)]
    pub fn fallback(&self) -> Option<String> {
        self.world.as_ref().and_then(|w| w.fallback()).map(str::to_string)
    }

    /// Notes the training step in the flight recorder.
    #[napi]
    pub fn set_step(&self, step: i64) -> Result<()> {
        self.world()?.set_step(step.max(0) as u64);
        Ok(())
    }

    /// The members in the order that gives blocks their places; must contain this rank.
    #[napi]
    pub fn group(&self, ranks: Vec<u32>, name: String) -> Result<NativeGroup> {
        let ranks: Vec<usize> = ranks.into_iter().map(|r| r as usize).collect();
        let world = self.world()?.clone();
        let group = world.group(&ranks, &name).map_err(Failure::from)?;
        Ok(NativeGroup::new(world, group))
    }
}
