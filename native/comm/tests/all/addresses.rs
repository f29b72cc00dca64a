//! Where ranks listen, and how they find each other there.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use crate::common::{SECRET, config, store};
use heddle_comm::{Config, Error, StoreClient, StoreServer, World};

const SOON: Duration = Duration::from_secs(20);
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Two ranks, of which the first listens as told; `between` runs before the second connects.
fn two(store: &StoreServer, first: Config, between: impl FnOnce(&StoreClient, &str)) -> Result<World, Error> {
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| World::connect(first));
        let client = StoreClient::connect(store.addr(), SECRET, "run", SOON).expect("a client");
        let entry = client.get("run/0/main/rank/0", "rank 0", SOON).expect("an entry");
        between(&client, std::str::from_utf8(&entry).expect("text"));
        let second = World::connect(config(store, 1, 2));
        let first = waiting.join().expect("no panic");
        second.and(first)
    })
}

#[test]
fn a_rank_listens_on_several_addresses_and_the_first_that_answers_is_taken() {
    let store = store("run");
    let dead = TcpListener::bind((LOOPBACK, 0)).and_then(|listener| listener.local_addr()).expect("an address");
    let first = Config { bind: vec![IpAddr::V6(Ipv6Addr::LOCALHOST), LOOPBACK], ..config(&store, 0, 2) };
    two(&store, first, |client, entry| {
        assert!(entry.starts_with("[::1]:") && entry.contains(",127.0.0.1:"), "{entry}");
        client.set("run/0/main/rank/0", format!("{dead},{entry}").as_bytes()).expect("set");
    })
    .expect("a world");
}

#[test]
fn a_rank_listens_on_a_free_port_of_the_range() {
    let store = store("run");
    // Two ports that follow each other, of which the first is taken.
    let (taken, port) = (20_000..30_000)
        .find_map(|port| {
            let taken = TcpListener::bind((LOOPBACK, port)).ok()?;
            TcpListener::bind((LOOPBACK, port + 1)).ok().map(|_free| (taken, port))
        })
        .expect("two ports");
    let first = Config { ports: port..=port + 1, ..config(&store, 0, 2) };
    two(&store, first, |_, entry| assert!(entry.starts_with(&format!("127.0.0.1:{} ", port + 1)), "{entry}"))
        .expect("a world");
    let error = World::connect(Config { ports: port..=port, epoch: 1, ..config(&store, 0, 2) }).unwrap_err();
    let Error::Io { what, .. } = &error else { panic!("{error}") };
    assert_eq!(*what, format!("could not listen on 127.0.0.1, ports {port} to {port}"));
    drop(taken);
}

#[test]
fn a_wildcard_or_no_address_is_refused() {
    let store = store("run");
    for bind in [vec![], vec![LOOPBACK, IpAddr::V4(Ipv4Addr::UNSPECIFIED)]] {
        let error = World::connect(Config { bind, ..config(&store, 0, 2) }).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }
}

#[test]
fn a_rank_that_is_at_the_store_but_does_not_connect_is_named_with_its_address() {
    let store = store("run");
    let limit = Duration::from_millis(300);
    let client = StoreClient::connect(store.addr(), SECRET, "run", SOON).expect("a client");
    client.set("run/0/main/rank/1", b"192.0.2.7:4100,192.0.2.8:4100 5 3").expect("set");
    let error = World::connect(Config { connect_timeout: limit, ..config(&store, 0, 3) }).unwrap_err();
    let Error::Timeout { waiting_for, .. } = &error else { panic!("{error}") };
    assert_eq!(waiting_for, "ranks 1 at 192.0.2.7:4100 or 192.0.2.8:4100, 2");
}

#[test]
fn strangers_at_the_port_of_a_rank_do_not_keep_others_out() {
    let store = store("run");
    // Silent ones, and ones that stop inside their hello; more than there are places.
    for said in [&b""[..], b"HEDDLE\r\n\x01\x00\x02"] {
        let mut strangers = Vec::new();
        let epoch = said.len() as u64;
        let connect = |rank| World::connect(Config { epoch, ..config(&store, rank, 2) });
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| connect(0));
            let client = StoreClient::connect(store.addr(), SECRET, "run", SOON).expect("a client");
            let entry = client.get(&format!("run/{epoch}/main/rank/0"), "rank 0", SOON).expect("an entry");
            let addr: SocketAddr = std::str::from_utf8(&entry).unwrap().split(' ').next().unwrap().parse().unwrap();
            for _ in 0..300 {
                let mut stranger = TcpStream::connect(addr).expect("a connection");
                // A stranger that had to give way may not get its bytes through.
                let _ = stranger.write_all(said);
                strangers.push(stranger);
            }
            connect(1).expect("a world");
            waiting.join().expect("no panic").expect("a world");
        });
    }
}
