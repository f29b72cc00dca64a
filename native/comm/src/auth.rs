//! The mutual challenge-response that opens every connection, before any message is parsed.
//!
//! ```text
//! client → server   hello      magic, version, role, rank, incarnation, run, nonce
//! server → client   challenge  magic, status, rank, incarnation, nonce
//! client → server   proof      HMAC-SHA256(secret, "client" hello challenge)
//! server → client   welcome    status, HMAC-SHA256(secret, "server" hello challenge)
//! ```
//!
//! The client proves first, so a stranger learns nothing that depends on the secret. Later messages are not encrypted.

use std::net::TcpStream;
use std::time::Instant;

use hmac_sha256::{HMAC, Hash};

use crate::AuthReason;
use crate::net::{Cut, random, read_by, write_by};

const MAGIC: [u8; 8] = *b"HEDDLE\r\n";
const VERSION: u16 = 1;
const HELLO: usize = 72;
const CHALLENGE: usize = 56;
const OK: u8 = 0;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Store = 1,
    Data = 2,
    Control = 3,
}

/// The process at one end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) role: Role,
    pub(crate) rank: u32,
    pub(crate) incarnation: u64,
}

/// The secret and the run, which both ends must share.
#[derive(Clone)]
pub(crate) struct Scope {
    secret: Vec<u8>,
    run: [u8; 16],
}

impl Scope {
    /// A scope of the store (no epoch) or of one world.
    pub(crate) fn new(secret: &[u8], run_id: &str, world: Option<(u64, &str)>) -> Self {
        let mut hash = Hash::new();
        hash.update((run_id.len() as u64).to_le_bytes());
        hash.update(run_id);
        if let Some((epoch, name)) = world {
            hash.update(epoch.to_le_bytes());
            hash.update(name);
        }
        let mut run = [0; 16];
        run.copy_from_slice(&hash.finalize()[..16]);
        Self { secret: secret.to_vec(), run }
    }

    /// The short form that goes into message headers.
    pub(crate) fn short(&self) -> u64 {
        u64::from_le_bytes(self.run[..8].try_into().expect("eight bytes"))
    }

    fn mac(&self, side: &str, hello: &[u8; HELLO], challenge: &[u8; CHALLENGE]) -> HMAC {
        let mut mac = HMAC::new(&self.secret);
        mac.update(side.as_bytes());
        mac.update(hello);
        mac.update(challenge);
        mac
    }
}

/// Reasons by their status, from 1.
const REASONS: [AuthReason; 6] = {
    use AuthReason::{Full, Malformed, WrongPeer, WrongRun, WrongSecret, WrongVersion};
    [WrongVersion, WrongRun, Full, WrongSecret, WrongPeer, Malformed]
};

fn reason(status: u8) -> AuthReason {
    REASONS.get(usize::from(status).wrapping_sub(1)).copied().unwrap_or(AuthReason::Malformed)
}

fn status(reason: AuthReason) -> u8 {
    REASONS.iter().position(|known| *known == reason).map_or(6, |index| index as u8 + 1)
}

fn broken(cut: &Cut) -> AuthReason {
    if *cut == Cut::TimedOut { AuthReason::TimedOut } else { AuthReason::Malformed }
}

fn role(byte: u8) -> Option<Role> {
    [Role::Store, Role::Data, Role::Control].into_iter().find(|role| *role as u8 == byte)
}

fn write_hello(scope: &Scope, me: Identity) -> [u8; HELLO] {
    let mut hello = [0; HELLO];
    hello[..8].copy_from_slice(&MAGIC);
    hello[8..10].copy_from_slice(&VERSION.to_le_bytes());
    hello[10] = me.role as u8;
    hello[12..16].copy_from_slice(&me.rank.to_le_bytes());
    hello[16..24].copy_from_slice(&me.incarnation.to_le_bytes());
    hello[24..40].copy_from_slice(&scope.run);
    hello[40..].copy_from_slice(&random::<32>());
    hello
}

fn read_identity(role: Role, rank: &[u8], incarnation: &[u8]) -> Identity {
    let rank = u32::from_le_bytes(rank.try_into().expect("four bytes"));
    let incarnation = u64::from_le_bytes(incarnation.try_into().expect("eight bytes"));
    Identity { role, rank, incarnation }
}

/// The client's side; returns who answered.
pub(crate) fn greet(
    stream: &TcpStream,
    scope: &Scope,
    me: Identity,
    deadline: Instant,
) -> Result<Identity, AuthReason> {
    let hello = write_hello(scope, me);
    write_by(stream, &hello, deadline).map_err(|cut| broken(&cut))?;
    let mut challenge = [0; CHALLENGE];
    read_by(stream, &mut challenge, deadline).map_err(|cut| broken(&cut))?;
    if challenge[..8] != MAGIC {
        return Err(AuthReason::Malformed);
    }
    if challenge[8] != OK {
        return Err(reason(challenge[8]));
    }
    let proof = scope.mac("client", &hello, &challenge).finalize();
    write_by(stream, &proof, deadline).map_err(|cut| broken(&cut))?;
    let mut welcome = [0; 33];
    read_by(stream, &mut welcome, deadline).map_err(|cut| broken(&cut))?;
    let [said, mac @ ..] = welcome;
    if said != OK {
        return Err(reason(said));
    }
    if !scope.mac("server", &hello, &challenge).finalize_verify(&mac) {
        return Err(AuthReason::WrongSecret);
    }
    Ok(read_identity(me.role, &challenge[12..16], &challenge[16..24]))
}

/// The server's side; `admit` refuses a peer whose claims are not acceptable. Returns who asked.
pub(crate) fn answer(
    stream: &TcpStream,
    scope: &Scope,
    me: (u32, u64),
    admit: impl Fn(Identity) -> Result<(), AuthReason>,
    deadline: Instant,
) -> Result<Identity, AuthReason> {
    let mut hello = [0; HELLO];
    read_by(stream, &mut hello, deadline).map_err(|cut| broken(&cut))?;
    if hello[..8] != MAGIC {
        return Err(AuthReason::Malformed);
    }
    let claim = check_hello(&hello, scope).and_then(|identity| admit(identity).map(|()| identity));
    let mut challenge = [0; CHALLENGE];
    challenge[..8].copy_from_slice(&MAGIC);
    challenge[8] = claim.err().map_or(OK, status);
    challenge[12..16].copy_from_slice(&me.0.to_le_bytes());
    challenge[16..24].copy_from_slice(&me.1.to_le_bytes());
    challenge[24..].copy_from_slice(&random::<32>());
    write_by(stream, &challenge, deadline).map_err(|cut| broken(&cut))?;
    let identity = claim?;
    let mut proof = [0; 32];
    read_by(stream, &mut proof, deadline).map_err(|cut| broken(&cut))?;
    let proven = scope.mac("client", &hello, &challenge).finalize_verify(&proof);
    let mut welcome = [0; 33];
    if proven {
        welcome[1..].copy_from_slice(&scope.mac("server", &hello, &challenge).finalize());
    } else {
        welcome[0] = status(AuthReason::WrongSecret);
    }
    write_by(stream, &welcome, deadline).map_err(|cut| broken(&cut))?;
    if proven { Ok(identity) } else { Err(AuthReason::WrongSecret) }
}

fn check_hello(hello: &[u8; HELLO], scope: &Scope) -> Result<Identity, AuthReason> {
    if hello[8..10] != VERSION.to_le_bytes() {
        return Err(AuthReason::WrongVersion);
    }
    if hello[24..40] != scope.run {
        return Err(AuthReason::WrongRun);
    }
    let role = role(hello[10]).ok_or(AuthReason::WrongPeer)?;
    Ok(read_identity(role, &hello[12..16], &hello[16..24]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn scopes_and_proofs_are_those_of_the_standards() {
        // By Python's hashlib and hmac; the key is longer than a block.
        let scope = Scope::new("secret".repeat(20).as_bytes(), "run", Some((7, "world")));
        assert_eq!(hex(&scope.run), "55a8dcbddc61be308550866854b79371");
        let mac = scope.mac("server", &[0; HELLO], &[1; CHALLENGE]);
        assert_eq!(hex(&mac.finalize()), "c70be484c03135c64108157f94387e82738d119202daf555379d0cee1a81c806");
    }
}
