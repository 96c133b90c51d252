//! A way to the database that breaks where a test wants it to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

pub(crate) struct Proxy {
    pub(crate) port: u16,
    cut: Arc<Mutex<Option<Cut>>>,
}

/// Where a connection is to be cut, and whether it was.
#[derive(Clone)]
pub(crate) struct Cut {
    tag: &'static str,
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
        let proxy = Self { port: listener.local_addr().unwrap().port(), cut: Arc::default() };
        let cut = Arc::clone(&proxy.cut);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let ((mut from_client, to_client), (from_server, mut to_server)) =
                    (client.into_split(), server.into_split());
                let cut = Arc::clone(&cut);
                tokio::spawn(async move {
                    tokio::select! {
                        _ = copy(&mut from_client, &mut to_server) => {}
                        _ = answers(from_server, to_client, &cut) => {}
                    }
                });
            }
        });
        proxy
    }

    /// Cuts the next connection on which the database says that a command of this tag is complete; it is never heard.
    pub(crate) fn cut_at(&self, tag: &'static str) -> Cut {
        let cut = Cut { tag, happened: Arc::default() };
        *self.cut.lock().unwrap() = Some(cut.clone());
        cut
    }
}

/// Passes the database's messages on: a letter, a length that counts itself, the rest.
async fn answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, cut: &Mutex<Option<Cut>>) -> std::io::Result<()> {
    loop {
        let (letter, length) = (from.read_u8().await?, from.read_u32().await?);
        let mut rest = vec![0; length as usize - 4];
        from.read_exact(&mut rest).await?;
        let cut = cut.lock().unwrap().take_if(|cut| letter == b'C' && rest.starts_with(cut.tag.as_bytes()));
        if let Some(cut) = cut {
            cut.happened.store(true, Ordering::SeqCst);
            return Ok(());
        }
        to.write_u8(letter).await?;
        to.write_u32(length).await?;
        to.write_all(&rest).await?;
    }
}
