//! Receivers of webhooks, which fail in every way there is.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use svc_core::{Received, Secret, Verifier};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex};

use crate::seams::Transport;
use crate::simulation::world::{ServerId, World};

/// What a receiver does with a request.
#[derive(Clone, Copy, Debug)]
enum Whim {
    Says(&'static str),
    /// Takes it, and answers after so many milliseconds.
    Slow(u64),
    /// Reads it, and never answers.
    Hangs,
    /// Reads it, and closes the connection.
    HangsUp,
    Babbles,
}

const GOOD: &str = "200 OK\r\n";
const WHIMS: [Whim; 14] = [
    Whim::Says(GOOD),
    Whim::Says("204 No Content\r\n"),
    Whim::Says("299 Well\r\n"),
    Whim::Says("500 Internal Server Error\r\n"),
    Whim::Says("429 Too Many Requests\r\nretry-after: 7\r\n"),
    Whim::Says("503 Service Unavailable\r\nretry-after: soon\r\n"),
    Whim::Says("302 Found\r\nlocation: http://10.0.0.1/\r\n"),
    Whim::Says("404 Not Found\r\n"),
    Whim::Says("410 Gone\r\n"),
    Whim::Slow(5_000),
    Whim::Slow(14_900),
    Whim::Hangs,
    Whim::HangsUp,
    Whim::Babbles,
];

/// The address of a receiver by its number. They have no names: tokio wakes those who wait for the same look-up in an order
/// that no seed settles.
pub(super) fn address(host: u64) -> IpAddr {
    Ipv4Addr::new(93, 184, 215, u8::try_from(host + 1).unwrap()).into()
}

/// The way from a server to all receivers.
pub(super) fn transport(world: Arc<World>, server: ServerId, secrets: Arc<[Secret]>) -> Transport {
    Transport::from_fn(move |address: SocketAddr| {
        let (world, secrets) = (Arc::clone(&world), Arc::clone(&secrets));
        async move {
            world.on_the_way(server).await;
            if world.draw.per_mille(world.faults().away) {
                return Err(io::Error::other(format!("{address} refuses")));
            }
            let (ours, theirs) = duplex(4_096);
            tokio::spawn(async move {
                // What ends it is one end going away.
                let _ = serve(&world, server, &secrets, theirs).await;
            });
            Ok(ours)
        }
    })
}

async fn serve(world: &World, server: ServerId, secrets: &[Secret], stream: DuplexStream) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let Some((headers, body)) = read(&mut stream).await? else { return Ok(()) };
        world.gate(server).await;
        let pairs = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let received = Received::from_pairs(pairs).unwrap();
        let event = String::from_utf8_lossy(received.id.unwrap_or_default()).into_owned();
        let verifier = secrets[1..].iter().fold(Verifier::new(&secrets[0]), Verifier::also);
        // Of their clocks nothing is known here, so that their timestamps are not looked at.
        if let Err(error) = verifier.tolerance(u64::MAX).verify(received, &body, 0) {
            world.violate(format!("{event} is not believed: {error}"));
        }
        let Some(id) = world.called(server, &event, &body) else { return Ok(()) };
        let whim = if world.are_well() { Whim::Says(GOOD) } else { *world.draw.pick(&WHIMS) };
        let (status, line) = match whim {
            Whim::Says(line) => (line[..3].parse().ok(), line),
            Whim::Slow(millis) => tokio::select! {
                biased;
                () = tokio::time::sleep(Duration::from_millis(millis)) => (Some(200), GOOD),
                // The caller has had enough, and may call again at once.
                _ = stream.read_u8() => {
                    world.answered(server, id, None);
                    return Ok(());
                }
            },
            Whim::Hangs => {
                // Until the caller has had enough.
                let _ = stream.read_u8().await;
                world.answered(server, id, None);
                return Ok(());
            }
            Whim::HangsUp => {
                world.answered(server, id, None);
                return Ok(());
            }
            Whim::Babbles => {
                world.answered(server, id, None);
                return stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").await;
            }
        };
        world.answered(server, id, status);
        stream.write_all(format!("HTTP/1.1 {line}content-length: 0\r\n\r\n").as_bytes()).await?;
    }
}

async fn read(stream: &mut BufReader<DuplexStream>) -> io::Result<Option<(Vec<(String, String)>, Vec<u8>)>> {
    let (mut line, mut headers) = (String::new(), Vec::new());
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_owned(), value.to_owned())),
            None => break,
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await?;
    Ok(Some((headers, body)))
}
