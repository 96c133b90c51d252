//! A way to the database that breaks where a test wants it to.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

pub(crate) struct Proxy {
    pub(crate) port: u16,
    breaks: Arc<Breaks>,
}

/// What is wrong with it.
#[derive(Default)]
struct Breaks {
    cut: Mutex<Option<Cut>>,
    delay: Mutex<Duration>,
    stored: AtomicU32,
}

/// Where a connection is to be cut, and whether it was.
#[derive(Clone)]
pub(crate) struct Cut {
    tag: &'static str,
    /// So many are let pass before.
    passed: u32,
    happened: Arc<AtomicBool>,
}

impl Cut {
    pub(crate) fn happened(&self) -> bool {
        self.happened.load(Ordering::SeqCst)
    }
}

impl Proxy {
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self { port: listener.local_addr().unwrap().port(), breaks: Arc::default() };
        let breaks = Arc::clone(&proxy.breaks);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let ((mut from_client, to_client), (from_server, mut to_server)) =
                    (client.into_split(), server.into_split());
                let breaks = Arc::clone(&breaks);
                tokio::spawn(async move {
                    tokio::select! {
                        _ = copy(&mut from_client, &mut to_server) => {}
                        _ = answers(from_server, to_client, &breaks) => {}
                    }
                });
            }
        });
        proxy
    }

    /// Cuts the connection on which the database says that a command of this tag is complete, after so many others of it; it
    /// is never heard.
    pub(crate) fn cut_at(&self, tag: &'static str, passed: u32) -> Cut {
        let cut = Cut { tag, passed, happened: Arc::default() };
        *self.breaks.cut.lock().unwrap() = Some(cut.clone());
        cut
    }

    /// From now on each command that finds or changes a row is said to be complete so much later.
    pub(crate) fn delay(&self, delay: Duration) {
        *self.breaks.delay.lock().unwrap() = delay;
    }

    /// How many new rows were said to be stored: what goes on beside a request is not counted.
    pub(crate) fn stored(&self) -> u32 {
        self.breaks.stored.load(Ordering::SeqCst)
    }
}

/// Passes the database's messages on: a letter, a length that counts itself, the rest.
async fn answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, breaks: &Breaks) -> std::io::Result<()> {
    loop {
        let (letter, length) = (from.read_u8().await?, from.read_u32().await?);
        let mut rest = vec![0; length as usize - 4];
        from.read_exact(&mut rest).await?;
        let cut = breaks.cut.lock().unwrap().take_if(|cut| {
            let said = letter == b'C' && rest.starts_with(cut.tag.as_bytes());
            let lets_pass = said && cut.passed > 0;
            cut.passed -= u32::from(lets_pass);
            said && !lets_pass
        });
        if let Some(cut) = cut {
            cut.happened.store(true, Ordering::SeqCst);
            return Ok(());
        }
        if letter == b'C' && !rest.starts_with(b"SELECT 0") {
            let delay = *breaks.delay.lock().unwrap();
            tokio::time::sleep(delay).await;
            breaks.stored.fetch_add(u32::from(rest.starts_with(b"INSERT")), Ordering::SeqCst);
        }
        to.write_u8(letter).await?;
        to.write_u32(length).await?;
        to.write_all(&rest).await?;
    }
}
