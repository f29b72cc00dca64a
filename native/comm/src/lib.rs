//! Communication of Heddle: a key-value store to meet at, authenticated links, and collectives over them.
//!
//! A [`World`] is one ordered stream of collectives among `size` ranks. A [`Group`] is an ordered choice of
//! those ranks.
//! Every rank must call the collectives of one world in one order, and a world runs one at a time; work that should
//! overlap uses a second world with another [`Config::name`]. Ranks that disagree get an error that names both sides.
//! The first error poisons a world: every later call returns it again. To go on, connect a new world with a new epoch.
//!
//! ```
//! use heddle_comm::{Dtype, Part, Reduction, World};
//! let worlds = World::in_process(2);
//! std::thread::scope(|scope| {
//!     for world in worlds {
//!         scope.spawn(move || {
//!             let mut group = world.group(&[0, 1], "data").unwrap();
//!             let mut gradients = vec![world.rank() as f32; 3];
//!             group.all_reduce(&[Part::in_place(&mut gradients)], Dtype::F32, Reduction::Sum, "gradients 0").unwrap();
//!             assert_eq!(gradients, [1.0; 3]);
//!         });
//!     }
//! });
//! ```

mod auth;
mod config;
mod drive;
mod error;
mod exchange;
mod flight;
mod frame;
mod group;
mod hellos;
mod lifeline;
mod memory;
mod mesh;
mod net;
mod prepared;
mod reduce;
mod rounds;
mod schedule;
mod shared_memory;
mod signals;
mod small;
mod state;
mod store;
mod transport;
mod types;
mod world;

pub use config::{Config, TransportKind};
pub use error::{AuthReason, Error, Result};
pub use flight::{Flight, FlightEntry, FlightState, read_flight};
pub use group::Group;
pub use lifeline::end_with_parent;
pub use store::{CompareAndSet, StoreClient, StoreServer};
pub use types::{Dtype, Element, Part, Reduction};
pub use world::World;
